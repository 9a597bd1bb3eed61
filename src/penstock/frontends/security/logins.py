"""Verifies credentials at login.

    key       pk_<id>_<secret>     secret remembered? ── yes ──────────────────────> known
    user      name, password            │ no
                                   too many failed? ── yes ──> refused, with the time to wait
                                        │ no
                                   too many in progress? ── yes ──> the same again when one of them has ended
                                        │ no
                                   scrypt, in a thread of its own ──> remembered ──> known
                                                                 └──> refused

A hash is slow on purpose, so one that fitted is remembered, by a keyed hash of
the secret that dies with the process: the next login with it costs some
microseconds.  For a password that is asked after the failed attempts are
looked at, or it could be guessed at that speed; a key is 256 random bits, which
nobody can guess it, so attackers cannot delay its owner.

All comparisons take the same time wherever two secrets differ, and a name that
does not exist takes as long as a wrong password.  Nothing tells which it was.

A hundred workers that start at the same time with one key are one look at it:
who shows what is being looked at waits for the same answer.

Limits: one thread, ``WAITING_MAX`` secrets that wait for it, and as many logins that wait for
the outcome of others.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network
from typing import Final

from penstock.broker.frontend import (
    HASHES,
    ITERATIONS,
    PASSWORD_COST,
    PASSWORD_LENGTH_MAX,
    SALT_BYTES,
    Access,
    Credential,
    Scram,
    StoredKey,
    StoredUser,
)
from penstock.clock import Clock
from penstock.errors import Overloaded, PenstockError, ShuttingDown, Unauthenticated
from penstock.frontends.security.identity import Credentials, Identity
from penstock.frontends.security.login_throttle import LoginThrottle
from penstock.frontends.security.scram import ScramLogin

WAITING_MAX: Final = 100
SECRET_LENGTH_MAX: Final = PASSWORD_LENGTH_MAX
REFUSED: Final = {
    "key": "the key is not valid, or was revoked",
    "user": "the name or the password is not right",
}

logger = logging.getLogger("penstock")

OnLogin = Callable[[Identity | None, PenstockError | None], None]
Claim = tuple[str, str, str]  # "key" or "user", the id or name, the secret.
Ticket = tuple[str, str, bytes]  # The same with a hash of the secret.


class Logins:
    """All logins of one server."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._throttle = LoginThrottle(clock)
        self._salt = secrets.token_bytes(32)
        self._fitted: dict[tuple[str, str], bytes] = {}  # Hashes of secrets; gone with the first change.
        self._stranger = Credential(cost=PASSWORD_COST, salt=self._salt, digest=bytes(64))
        self._thread = ThreadPoolExecutor(1, "penstock-login")
        self._checking: dict[
            Ticket, list[OnLogin]
        ] = {}  # Waiting logins by the secret that is being verified.
        self._waiting: list[tuple[Credentials, str, OnLogin]] = []  # Until one that is verified has ended.

    def begin(self, credentials: Credentials, address: str, then: OnLogin) -> None:
        """Verify credentials; ``then`` is called once, perhaps before this returns."""
        try:
            claim = _claim(credentials)
            stored = self._stored(claim)
            if claim[0] == "key" and self._remembered(claim, stored):
                then(self._identity(stored), None)
                return
            others = self._checking.get(self._ticket(claim))
            if others is not None:
                others.append(then)
                return
            if len(self._checking) >= WAITING_MAX:
                raise Overloaded(what="logins", limit=WAITING_MAX)
            subjects = _subjects(claim, stored, address)
            self._throttle.check(*subjects)
            if self._remembered(claim, stored):
                then(self._identity(stored), None)
            elif stored is None and claim[0] == "key":  # Ids are random, so this reveals nothing.
                self._throttle.fail(*subjects)
                raise _refused(claim, address)
            elif not self._throttle.is_full(*subjects):
                self._check_beside(claim, stored, address, then)
            elif len(self._waiting) < WAITING_MAX:
                self._waiting.append((credentials, address, then))
            else:
                raise Overloaded(what="logins", limit=WAITING_MAX)
        except PenstockError as error:
            then(None, error)

    def scram(self, mechanism: str) -> ScramLogin:
        """Begin a login in which the password is not shown."""

        def find(name: str) -> Scram:
            stored = self._access.user(name)
            known = None if stored is None else stored.scram.get(mechanism)
            return known or self._strange_scram(mechanism, name)

        return ScramLogin(mechanism, find)

    def _strange_scram(self, mechanism: str, name: str) -> Scram:
        """SCRAM data for an unknown user: always the same, and matched by no password."""
        salt = hmac.digest(self._salt, name.encode("utf-8", "surrogatepass"), "sha256")[:SALT_BYTES]
        size = hashlib.new(HASHES[mechanism]).digest_size
        return Scram(salt=salt, iterations=ITERATIONS, stored_key=bytes(size), server_key=bytes(size))

    def scram_final(self, login: ScramLogin, proof: bytes, address: str) -> tuple[bytes, Identity]:
        """The answer to the proof, and who it is.

        Only this is an attempt: what came before told nothing about the password.
        """
        claim = ("user", login.user, "")
        subjects = _subjects(claim, None, address)
        self._throttle.check(*subjects)
        answer, stored = login.final(proof), self._access.user(login.user)
        if answer is None or stored is None:  # None if it was deleted in between.
            self._throttle.fail(*subjects)
            raise _refused(claim, address)
        return answer, self._identity(stored)

    def signing_secret(self, key_id: str) -> str | None:
        """The secret that a key signs requests with; None if there is no such key, or none is stored."""
        stored = self._access.key(key_id)
        return None if stored is None else stored.signing or None

    def signer(self, key_id: str) -> Identity:
        """The identity that has signed a request with the secret of a key."""
        stored = self._access.key(key_id)
        if stored is None:
            raise Unauthenticated(why=REFUSED["key"])
        return self._identity(stored)

    def forget(self, kind: str, name: str) -> None:
        """Forget a key or user that was changed or deleted."""
        self._fitted.pop((kind, name), None)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, then in waiting:
            then(None, ShuttingDown(what="server"))
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _check_beside(
        self, claim: Claim, stored: StoredKey | StoredUser | None, address: str, then: OnLogin
    ) -> None:
        ticket = self._ticket(claim)
        self._checking[ticket] = [then]
        fits = self._stranger.fits if stored is None else stored.fits
        subjects = _subjects(claim, stored, address)
        self._throttle.begin(*subjects)
        loop = asyncio.get_running_loop()
        checked = loop.run_in_executor(self._thread, fits, claim[2])

        def ended(_: object) -> None:
            identity: Identity | None = None
            error: PenstockError | None = None
            self._throttle.end(*subjects)
            if checked.cancelled():
                error = ShuttingDown(what="server")
            elif not checked.result() or stored is None or self._stored(claim) is not stored:
                self._throttle.fail(*subjects)
                error = _refused(claim, address)
            else:
                self._fitted[claim[:2]] = ticket[2]
                identity = self._identity(stored)
            for each in self._checking.pop(ticket):
                each(identity, error)
            waiting, self._waiting = self._waiting, []
            for one in waiting:
                self.begin(*one)

        checked.add_done_callback(ended)

    def _stored(self, claim: Claim) -> StoredKey | StoredUser | None:
        kind, name, _ = claim
        return self._access.key(name) if kind == "key" else self._access.user(name)

    def _identity(self, stored: StoredKey | StoredUser | None) -> Identity:
        assert stored is not None
        permissions, quota = self._access.permissions(stored), stored.info.quota
        if isinstance(stored, StoredKey):
            info = stored.info
            return Identity(kind="key", name=info.id, called=info.name, permissions=permissions, quota=quota)
        return Identity(kind="user", name=stored.info.name, permissions=permissions, quota=quota)

    def _remembered(self, claim: Claim, stored: StoredKey | StoredUser | None) -> bool:
        digest = self._fitted.get(claim[:2])
        if stored is None or digest is None:
            return False
        return hmac.compare_digest(digest, self._hash(claim[2]))

    def _ticket(self, claim: Claim) -> Ticket:
        return claim[0], claim[1], self._hash(claim[2])

    def _hash(self, secret: str) -> bytes:
        return hmac.digest(self._salt, secret.encode("utf-8", "surrogatepass"), "sha256")


def _claim(credentials: Credentials) -> Claim:
    """The identity that a login claims."""
    if credentials.key is not None:
        mark, _, rest = credentials.key.partition("_")
        key_id, _, secret = rest.partition("_")
        if mark != "pk" or not key_id or not 0 < len(secret) <= SECRET_LENGTH_MAX:
            raise Unauthenticated(why="that is not an API key; one looks like pk_<id>_<secret>")
        return "key", key_id, secret
    if (
        credentials.user is not None
        and credentials.password is not None
        and len(credentials.password) <= SECRET_LENGTH_MAX
    ):
        return "user", credentials.user, credentials.password
    raise Unauthenticated(why="this server requires an API key")


def _subjects(claim: Claim, stored: object, address: str) -> tuple[str, ...]:
    """What failed logins count for: an existing key; the network of unknown keys; network and user name."""
    kind, name, _ = claim
    source = f"address {_network(address)}"
    if kind == "key":
        return (f"{source}, with keys that do not exist",) if stored is None else (f"key {name}",)
    return source, f"user {name[:100]}"


def _network(address: str) -> str:
    """The network of an address: a client with IPv6 has 2^64 addresses."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ip_network(f"{known}/64", strict=False)) if known.version == 6 else address


def _refused(claim: Claim, address: str) -> Unauthenticated:
    kind, name, _ = claim
    logger.warning("login of %s %r from %s refused", kind, name[:100], address)
    what = (
        "the key is not valid, or was revoked" if kind == "key" else "the name or the password is not right"
    )
    return Unauthenticated(why=what)
