// One import is enough for developers: what the API shows of the modules below comes with it.
@_exported public import MQTTCore
@_exported public import MQTTTransport
