internal import Foundation
internal import Glibc

/// `mqtt-soak`: many clients, a relay that breaks their connections, a broker that is restarted, and what has to hold
/// all the same. Exit status 1 where it doesn't, 3 where there is no mosquitto.
@main
enum MQTTSoak {
    static func main() async {
        Resources.raiseLimit()
        do {
            let options = try SoakOptions(Array(CommandLine.arguments.dropFirst()))
            say("\(options.clients) clients for \(options.duration) s; SEED=\(options.seed)")
            // A run that hangs ends by SIGALRM.
            alarm(UInt32(options.duration) + 180)
            exit(try await SoakRun(options).run() ? 0 : 1)
        } catch {
            say("mqtt-soak: \(error)")
            exit(70)
        }
    }
}

/// Prints a line at once, into a pipe too.
func say(_ line: String) {
    print(line)
    fflush(nil)
}
