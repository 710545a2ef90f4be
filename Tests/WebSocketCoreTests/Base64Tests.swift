import Testing
import WebSocketCore

@Suite struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func `the vectors of RFC 4648, section 10, both ways`(plain: String, encoded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(plain.utf8))
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Zg===", "=Zg=", "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "Zm-_", "====", "Zg==Zg==",
    ])
    func `anything else is refused`(text: String) {
        #expect(Base64.decode(text) == nil)
    }
}
