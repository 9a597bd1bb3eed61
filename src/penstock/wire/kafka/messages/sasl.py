"""Who a client is: SaslHandshake, SaslAuthenticate."""

from typing import Annotated, ClassVar

from penstock.wire.kafka.fields import NEVER, Bytes, Int16, Int64, KafkaMessage, String, Versions


class SaslHandshakeRequest(KafkaMessage):
    KEY: ClassVar = 17
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = NEVER

    mechanism: String = ""


class SaslHandshakeResponse(KafkaMessage):
    KEY: ClassVar = 17
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = NEVER

    error_code: Int16 = 0
    mechanisms: list[String] = []


class SaslAuthenticateRequest(KafkaMessage):
    KEY: ClassVar = 36
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 2

    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(KafkaMessage):
    KEY: ClassVar = 36
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 2

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, Versions(1)] = 0
