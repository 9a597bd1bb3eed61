"""The server's side of a login by SCRAM (RFC 5802, RFC 7677).

    client    n,,n=<user>,r=<nonce>
    server    r=<nonce><more>,s=<salt>,i=<iterations>
    client    c=biws,r=<nonce><more>,p=<proof>
    server    v=<signature>

The password never leaves the client, and the server proves that it knows it, too.  A name that does not exist
gets a salt like any other, the same each time: nothing tells which it was.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable
from typing import Final

from penstock.broker.frontend import HASHES, Scram
from penstock.errors import Unauthenticated

NONCE_BYTES: Final = 18
NO_BINDING: Final = (b"n,,", b"y,,")  # A client that binds to its channel (p=...) asks for another mechanism.


class ScramLogin:
    """One exchange; ``user`` is the authenticated user once it has ended."""

    def __init__(self, mechanism: str, find: Callable[[str], Scram]) -> None:
        self.user = ""
        self._hash = HASHES[mechanism]
        self._find = find
        self._credential: Scram | None = None
        self._nonce = b""
        self._begin = b""  # What both sides have signed, so far.
        self._header = b""

    @property
    def begun(self) -> bool:
        """Whether the first message was answered."""
        return self._credential is not None

    def first(self, message: bytes) -> bytes:
        """The response to the client's first message."""
        header, bare = message[:3], message[3:]
        facts = _facts(bare)
        if header not in NO_BINDING or b"n" not in facts or not facts.get(b"r"):
            raise Unauthenticated(why="that is no beginning of a login by SCRAM")
        self.user = facts[b"n"].replace(b"=2C", b",").replace(b"=3D", b"=").decode("utf-8", "replace")
        self._credential = found = self._find(self.user)
        self._header = header
        self._nonce = facts[b"r"] + secrets.token_urlsafe(NONCE_BYTES).encode()
        answer = b"r=%s,s=%s,i=%d" % (self._nonce, b64encode(found.salt), found.iterations)
        self._begin = bare + b"," + answer
        return answer

    def final(self, message: bytes) -> bytes | None:
        """The answer to the proof; None if it is none."""
        found = self._credential
        assert found is not None
        without_proof, _, proof = message.rpartition(b",p=")
        facts = _facts(without_proof)
        if facts.get(b"r") != self._nonce or facts.get(b"c") != b64encode(self._header):
            return None
        signed = self._begin + b"," + without_proof
        signature = hmac.digest(found.stored_key, signed, self._hash)
        try:
            decoded = b64decode(proof, validate=True)
        except Error:
            decoded = b""
        client_key = bytes(one ^ other for one, other in zip(decoded, signature, strict=False))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), found.stored_key):
            return None
        return b"v=" + b64encode(hmac.digest(found.server_key, signed, self._hash))


def _facts(message: bytes) -> dict[bytes, bytes]:
    return {part[:1]: part[2:] for part in message.split(b",") if part[1:2] == b"="}
