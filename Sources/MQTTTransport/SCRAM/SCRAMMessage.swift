internal import WebSocketCore

/// The four messages of SCRAM without channel binding (RFC 5802 §5.1 and §7): text made of `a=value`, separated
/// by commas.
package enum SCRAMMessage {
    /// "n,,": no channel binding, no authorisation identity.
    package static let gs2Header = "n,,"

    package struct ClientFirst: Sendable, Hashable {
        package var userName: String
        package var nonce: String

        package init(userName: String, nonce: String) {
            self.userName = userName
            self.nonce = nonce
        }

        package init?(_ bytes: [UInt8]) {
            guard let text = String(validating: bytes, as: UTF8.self), text.hasPrefix(gs2Header),
                let fields = Fields(text.dropFirst(gs2Header.count), ["n", "r"]),
                let userName = Self.unescaped(fields[0])
            else { return nil }
            self.init(userName: userName, nonce: fields[1])
        }

        /// client-first-message-bare, a part of what is signed.
        package var bare: String { "n=\(Self.escaped(userName)),r=\(nonce)" }
        package var text: String { gs2Header + bare }

        private static func escaped(_ name: String) -> String {
            var escaped = ""
            for scalar in name.unicodeScalars {
                switch scalar {
                case "=": escaped += "=3D"
                case ",": escaped += "=2C"
                default: escaped.unicodeScalars.append(scalar)
                }
            }
            return escaped
        }

        private static func unescaped(_ text: String) -> String? {
            let parts = text.split(separator: "=", omittingEmptySubsequences: false)
            var name = String(parts[0])
            for part in parts.dropFirst() {
                switch part.prefix(2) {
                case "3D": name += "="
                case "2C": name += ","
                default: return nil
                }
                name += part.dropFirst(2)
            }
            return name
        }
    }

    package struct ServerFirst: Sendable, Hashable {
        /// The client's nonce and what the server appended.
        package var nonce: String
        package var salt: [UInt8]
        package var iterations: Int
        /// As it came, since it is signed.
        package let text: String

        package init(nonce: String, salt: [UInt8], iterations: Int) {
            self.nonce = nonce
            self.salt = salt
            self.iterations = iterations
            text = "r=\(nonce),s=\(Base64.encode(salt)),i=\(iterations)"
        }

        /// Extensions that may be ignored are; a mandatory one ("m=") makes the message unreadable, as it must.
        package init?(_ bytes: [UInt8]) {
            guard let text = String(validating: bytes, as: UTF8.self),
                let fields = Fields(text[...], ["r", "s", "i"]), let salt = Base64.decode(fields[1]),
                !salt.isEmpty, fields[2].utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let iterations = Int(fields[2])
            else { return nil }
            nonce = fields[0]
            self.salt = salt
            self.iterations = iterations
            self.text = text
        }
    }

    package struct ClientFinal: Sendable, Hashable {
        package var nonce: String
        package var proof: [UInt8]

        package init(nonce: String, proof: [UInt8]) {
            self.nonce = nonce
            self.proof = proof
        }

        package init?(_ bytes: [UInt8]) {
            guard let text = String(validating: bytes, as: UTF8.self),
                let fields = Fields(text[...], ["c", "r", "p"]), fields[0] == Self.channelBinding,
                let proof = Base64.decode(fields[2])
            else { return nil }
            self.init(nonce: fields[1], proof: proof)
        }

        /// client-final-message-without-proof, a part of what is signed.
        package var bare: String { "c=\(Self.channelBinding),r=\(nonce)" }
        package var text: String { "\(bare),p=\(Base64.encode(proof))" }

        private static var channelBinding: String { Base64.encode(Array(gs2Header.utf8)) }
    }

    package enum ServerFinal: Sendable, Hashable {
        case signature([UInt8])
        /// server-error-value, such as `invalid-proof`.
        case error(String)

        package init?(_ bytes: [UInt8]) {
            guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
            if let fields = Fields(text[...], ["v"]), let signature = Base64.decode(fields[0]) {
                self = .signature(signature)
            } else if let fields = Fields(text[...], ["e"]) {
                self = .error(fields[0])
            } else {
                return nil
            }
        }

        package var text: String {
            switch self {
            case .signature(let bytes): "v=\(Base64.encode(bytes))"
            case .error(let value): "e=\(value)"
            }
        }
    }

    /// What both sides sign.
    package static func authMessage(
        _ clientFirst: ClientFirst, _ serverFirst: ServerFirst, finalNonce: String
    ) -> String {
        "\(clientFirst.bare),\(serverFirst.text),\(ClientFinal(nonce: finalNonce, proof: []).bare)"
    }

    /// The values of attributes that have to come first and in this order.
    private struct Fields {
        private let values: [String]

        init?(_ text: Substring, _ names: [Character]) {
            let parts = text.split(separator: ",", omittingEmptySubsequences: false)
            guard parts.count >= names.count else { return nil }
            var values: [String] = []
            for (part, name) in zip(parts, names) {
                guard part.first == name, part.dropFirst().first == "=", part.count > 2 else { return nil }
                values.append(String(part.dropFirst(2)))
            }
            self.values = values
        }

        subscript(_ index: Int) -> String { values[index] }
    }
}
