"""Who a client is: SaslHandshake, SaslAuthenticate."""

from typing import Annotated

from penstock.wire.kafka.fields import NEVER, Bytes, Int16, Int64, KafkaMessage, String, Versions, api


@api(17, versions=(0, 1), flexible=NEVER)
class SaslHandshakeRequest(KafkaMessage):
    mechanism: String = ""


@api(17, versions=(0, 1), flexible=NEVER)
class SaslHandshakeResponse(KafkaMessage):
    error_code: Int16 = 0
    mechanisms: list[String] = []


@api(36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest(KafkaMessage):
    auth_bytes: Bytes = b""


@api(36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse(KafkaMessage):
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, Versions(1)] = 0
