import MQTTCore
import MQTTTransport

/// A connection that the broker has accepted, between its byte stream and the broker's logic. On the loop only.
final class BrokerPeer: ByteStreamDelegate {
    let stream: ByteStream
    let id: ConnectionID
    let isWebSocket: Bool
    /// Output waits for the stream to have written what it has.
    var isHeldBack = false
    private let driver: BrokerDriver
    private var decoder: PacketDecoder

    init(_ stream: ByteStream, _ id: ConnectionID, isWebSocket: Bool, driver: BrokerDriver) {
        self.stream = stream
        self.id = id
        self.isWebSocket = isWebSocket
        self.driver = driver
        decoder = PacketDecoder(
            role: .server, maximumPacketSize: driver.core.configuration.maximumPacketSize)
    }

    func stream(_ stream: ByteStream, passed stage: ConnectionStage, detail: String) {}

    func stream(_ stream: ByteStream, received bytes: UnsafeRawBufferPointer) {
        var input = bytes
        do {
            while let packet = try decoder.next(in: &input) { driver.received(packet, from: self) }
        } catch {
            // Every later call throws the same, which the closing connection ignores.
            driver.rejected(error, from: self)
        }
    }

    func streamFlushed(_ stream: ByteStream) {
        if isHeldBack { driver.flushed(self) }
    }

    func streamClosed(_ stream: ByteStream, _ error: TransportError?) {
        driver.closed(self)
    }
}
