"""Authentication of clients: SaslHandshake, SaslAuthenticate.

    PLAIN             a user's name and password; or any name, with an API key in the place of the password
    SCRAM-SHA-256     a user's name and a proof that the client knows the password
    SCRAM-SHA-512

After version 1 of SaslHandshake the messages of a login are SaslAuthenticate, after version 0 bare frames.

A login that failed is answered after ``FAILED_S``, and then the connection is closed: a client that tries
again at once, as some do, does so twice a second and not a thousand times."""

import asyncio
from functools import partial
from typing import Final

from penstock.broker.frontend import HASHES
from penstock.errors import PenstockError, Unauthenticated
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import words_of
from penstock.frontends.kafka.session import KafkaSession
from penstock.frontends.security.identity import Credentials, Identity
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *HASHES)
KEY_MARK: Final = "pk_"
FAILED_S: Final = 0.5


def handshake(call: KafkaCall[SaslHandshakeRequest]) -> SaslHandshakeResponse:
    """Agree on the mechanism of authentication."""
    session = call.session
    code = Code.NONE
    if session.known:  # No login is required, or the client has logged in.
        return SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE)
    if call.request.mechanism not in MECHANISMS:
        code = Code.UNSUPPORTED_SASL_MECHANISM
    else:
        session.mechanism = call.request.mechanism
        session.scram = None
        session.bare = partial(_bare, session) if call.version < 1 else None
    return SaslHandshakeResponse(error_code=code, mechanisms=list(MECHANISMS))


async def authenticate(call: KafkaCall[SaslAuthenticateRequest]) -> SaslAuthenticateResponse:
    """The next message of a login."""
    session = call.session
    if session.known or not session.mechanism:
        return SaslAuthenticateResponse(
            error_code=Code.ILLEGAL_SASL_STATE, error_message="a login begins with SaslHandshake, once"
        )
    try:
        answer = await _answered(session, call.request.auth_bytes)
        return SaslAuthenticateResponse(error_message=None, auth_bytes=answer)
    except PenstockError as error:
        await asyncio.sleep(FAILED_S)
        asyncio.get_running_loop().call_soon(session.end)  # Behind the answer.
        return SaslAuthenticateResponse(
            error_code=Code.SASL_AUTHENTICATION_FAILED, error_message=words_of(error)
        )


async def _bare(session: KafkaSession, data: bytes) -> bytes:
    """A login message of a client that sends it without Kafka's messages; failures have no error message."""
    try:
        answer = await _answered(session, data)
    except PenstockError:
        await asyncio.sleep(FAILED_S)
        raise
    if session.known:
        session.bare = None
    return answer


async def _answered(session: KafkaSession, data: bytes) -> bytes:
    """The next message of the server; admits a client that has completed the login."""
    if session.mechanism == PLAIN:
        session.admit(await _plain(session, data))
        return b""
    answer, identity = _scram(session, data)
    if identity is not None:
        session.admit(identity)
    return answer


async def _plain(session: KafkaSession, data: bytes) -> Identity:
    try:
        _, user, password = data.decode().split("\0")
    except ValueError:
        raise Unauthenticated(why="PLAIN is a name and a password, with a zero before each") from None
    credentials = Credentials(user=user, password=password)
    if password.startswith(KEY_MARK):
        credentials = Credentials(key=password)
    return await session.shared.gateway.login(credentials, session.address)


def _scram(session: KafkaSession, data: bytes) -> tuple[bytes, Identity | None]:
    """The response, and the identity once it is known."""
    gateway = session.shared.gateway
    if session.scram is None:
        session.scram = gateway.scram(session.mechanism)
    if not session.scram.begun:
        return session.scram.first(data), None
    return gateway.scram_final(session.scram, data, session.address)


APIS = (
    Api(SaslHandshakeRequest, SaslHandshakeResponse, handshake, unauthenticated=True),
    Api(SaslAuthenticateRequest, SaslAuthenticateResponse, authenticate, unauthenticated=True),
)
