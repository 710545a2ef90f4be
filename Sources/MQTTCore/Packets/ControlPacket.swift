/// Any of the fifteen MQTT Control Packets (section 2.1.2).
///
/// One model serves both protocol versions: what exists only in 5.0 (properties, reason codes) keeps
/// its neutral value on a 3.1.1 connection and is not encoded there.
package enum ControlPacket: Sendable, Hashable {
    case connect(Connect)
    case connack(Connack)
    case publish(Publish)
    case puback(Acknowledgement)
    case pubrec(Acknowledgement)
    case pubrel(Acknowledgement)
    case pubcomp(Acknowledgement)
    case subscribe(Subscribe)
    case suback(Suback)
    case unsubscribe(Unsubscribe)
    case unsuback(Unsuback)
    case pingreq
    case pingresp
    case disconnect(Disconnect)
    case auth(Auth)
}
