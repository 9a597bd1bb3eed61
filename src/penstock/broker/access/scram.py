"""A password as SCRAM keeps it (RFC 5802): enough to check a proof of it, not enough to make one.

    salted = PBKDF2(password, salt, iterations)
    stored key = H(HMAC(salted, "Client Key"))         checks what a client proves
    server key = HMAC(salted, "Server Key")            proves to the client that we know it, too

Salted for itself, and by each of the two hashes that Kafka's clients know.
"""

import hashlib
import hmac
import secrets
from typing import Final, Self

import msgspec

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT_BYTES: Final = 16
ITERATIONS: Final = 8192  # Kafka's; a client works through them for every connection: librdkafka 60 ms.


class Scram(msgspec.Struct, frozen=True, kw_only=True):
    """A password for one mechanism."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, mechanism: str, password: str, iterations: int = ITERATIONS) -> Self:
        """Salt and hash a new password."""
        salt = secrets.token_bytes(SALT_BYTES)
        return cls.of_salted(mechanism, salt, iterations, _salted(mechanism, password, salt, iterations))

    @classmethod
    def of_salted(cls, mechanism: str, salt: bytes, iterations: int, salted: bytes) -> Self:
        """From a password that the client has salted and hashed itself."""
        name = HASHES[mechanism]
        client_key = hmac.digest(salted, b"Client Key", name)
        return cls(
            salt=salt,
            iterations=iterations,
            stored_key=hashlib.new(name, client_key).digest(),
            server_key=hmac.digest(salted, b"Server Key", name),
        )

    def fits(self, mechanism: str, password: str) -> bool:
        """Whether this is the password; takes its time, so not on an event loop."""
        salted = _salted(mechanism, password, self.salt, self.iterations)
        computed = self.of_salted(mechanism, self.salt, self.iterations, salted)
        return hmac.compare_digest(computed.stored_key, self.stored_key)


def _salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    text = password.encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac(HASHES[mechanism], text, salt, iterations)
