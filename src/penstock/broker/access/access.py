"""API keys, users and ACLs of one broker.

    data/access.json     keys and users, their grants, and a salted scrypt hash of each secret; for a
                         password also SCRAM credentials (``scram.py``), or only those; and ACLs by
                         principal, which may exist before the user does and remain when it is deleted

A broker in memory keeps them in memory.  The text of a key is ``pk_<id>_<secret>``
and is returned once, when the key is created.  Only a hash is stored, so the file
alone does not reveal any key.  A key that is to sign requests (SQS) is an exception: a signature can only be
verified with what it was made with.  That is derived from the secret, which it does not reveal.

Nothing is enforced here; a program with an embedded broker has full access.  Front
ends look up the principal (``key``, ``user``), check the secret outside the event
loop, because that is deliberately slow, and guard the operations they call; see
``frontends/security``.  The callback ``changed`` notifies them of every change.

Cost: the secret of a key is 256 random bits, which cannot be guessed, so a cheap hash
is enough (5 ms).  Passwords can be guessed, so their hashes are slow (100 ms).  Both
are computed outside the lock while the broker does other work, so conditions that were
checked before are checked again afterwards.
"""

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from penstock.broker.access.scram import HASHES, Scram
from penstock.broker.registry.registry import ACCESS
from penstock.broker.state import State
from penstock.broker.steps import Steps, aside
from penstock.broker.storage.checked_json import decode_checked, encode_checked
from penstock.broker.turns import Turn
from penstock.errors import DirectoryUnusable, IdentityNotFound, InvalidValue, Overloaded
from penstock.model.access import (
    ACLS_MAX,
    EVERY_USER,
    Acl,
    Grant,
    KeyInfo,
    NewKey,
    Permissions,
    Quota,
    UserInfo,
    acls_of,
    grants_of,
    is_super_user,
    quota_of,
    signing_secret,
)
from penstock.types import check_name

KEY_MARK: Final = "pk"  # Begins every key, so that one that leaked is found by a search.
ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
PASSWORD_LENGTH_MIN: Final = 8
PASSWORD_LENGTH_MAX: Final = 1000
IDENTITIES_MAX: Final = 10_000  # Keys and users together: they are one file, which is written as a whole.

# scrypt's n: memory is n KiB, and time grows with it.
KEY_COST: Final = 1 << 10
PASSWORD_COST: Final = 1 << 14
MEMORY_MAX: Final = 256 * 1024 * 1024


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A secret as it is stored."""

    cost: int
    salt: bytes
    digest: bytes

    @classmethod
    def of(cls, secret: str, cost: int) -> "Credential":
        """Salt and hash a new secret."""
        salt = secrets.token_bytes(SALT_BYTES)
        return cls(cost=cost, salt=salt, digest=_digest(secret, salt, cost))

    def fits(self, secret: str) -> bool:
        """Whether this is the secret; takes its time, so not on an event loop."""
        return hmac.compare_digest(_digest(secret, self.salt, self.cost), self.digest)


def _digest(secret: str, salt: bytes, cost: int) -> bytes:
    text = secret.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=cost, r=8, p=1, maxmem=MEMORY_MAX)


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key and its credential."""

    info: KeyInfo
    credential: Credential
    signing: str = ""  # What it signs requests with, if it was created for that: ``signing_secret``.

    def fits(self, secret: str) -> bool:
        """Whether this is its secret; takes its time, as below."""
        return self.credential.fits(secret)


class StoredUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user and the credential."""

    info: UserInfo
    credential: Credential | None  # None: the password was set by SCRAM, and only that knows it.
    scram: dict[str, Scram] = {}  # By mechanism; empty if the password was set before there was SCRAM.

    def fits(self, password: str) -> bool:
        """Whether this is the password; takes its time."""
        if self.credential is not None:
            return self.credential.fits(password)
        return any(scram.fits(mechanism, password) for mechanism, scram in self.scram.items())


class AccessBook(msgspec.Struct, frozen=True, kw_only=True):
    keys: dict[str, StoredKey] = {}
    users: dict[str, StoredUser] = {}
    acls: list[Acl] = []


MARK: Final = "__acl"  # Among the names of grants in which version 0.1 kept ACLs; no topic is named so.

T = TypeVar("T")


class Access:
    """The keys and users of a data directory."""

    def __init__(self, state: State) -> None:
        self.changed: Callable[[str, str], None] = lambda _kind, _name: None  # Front ends put theirs here.
        self._state = state
        self._changes: deque[Turn] = deque()  # One at a time.
        self._book = AccessBook()
        self._error: DirectoryUnusable | None = None  # The file is damaged: no keys and users are known.

    def open(self) -> None:
        data = self._state.registry.read(ACCESS)
        if data is None:
            return
        try:
            self._book = _with_acls(decode_checked(data, AccessBook))
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidValue) as error:
            why = f"access.json is damaged ({error}); restore it from a copy, or run penstock repair"
            self._error = DirectoryUnusable(directory=self._state.directory, why=why)
            message = f"{why}: until then no login is possible"
            self._state.problems.report("access.json", "file_damaged", message)

    def load(self, data: bytes) -> None:
        """Load keys and users again after another node's change; close connections of changed identities."""
        before, self._book = self._book, _with_acls(decode_checked(data, AccessBook))
        for kind, known, now in (
            ("key", before.keys, self._book.keys), ("user", before.users, self._book.users),
        ):  # fmt: skip
            for name, stored in known.items():
                if before.acls != self._book.acls or now.get(name) != stored:
                    self.changed(kind, name)

    def _refresh(self) -> None:
        """In a cluster, load what the metadata have: a change may not have been carried out here yet."""
        if self._state.registry.group_epoch(""):
            data = self._state.registry.read(ACCESS)
            if data is not None:
                self.load(data)

    @property
    def has_admin(self) -> bool:
        """Whether there is an admin who can create keys."""
        if self._error is not None:
            raise self._error
        return any(is_super_user(one.info.grants) for one in self._identities())

    # Keys.

    def create_key(self, name: Any, grants: Any, quota: Any, signing: Any = False) -> Steps[NewKey]:
        """Create a key; its secret is only in the result and is not stored.

        With ``signing`` what follows from the secret by ``signing_secret`` is stored.
        """
        check_name("key", name)
        info = KeyInfo(
            id=secrets.token_hex(ID_BYTES),
            name=name,
            grants=grants_of(grants),
            quota=quota_of(quota),
            created_ms=self._now(),
        )
        self._check_room()
        secret = secrets.token_urlsafe(SECRET_BYTES)
        credential: Credential = yield from aside(lambda: Credential.of(secret, KEY_COST))
        stored = StoredKey(
            info=info, credential=credential, signing=signing_secret(secret) if signing else ""
        )
        self._check_room()
        yield from self._save(lambda book: {"keys": book.keys | {info.id: stored}})
        return NewKey(id=info.id, name=name, key=f"{KEY_MARK}_{info.id}_{secret}")

    def keys(self) -> list[KeyInfo]:
        """All keys, the oldest first."""
        return sorted((stored.info for stored in self._book.keys.values()), key=lambda info: info.created_ms)

    def revoke_key(self, key_id: Any) -> Steps[None]:
        """Revoke a key, and close the connections that use it."""
        if key_id not in self._book.keys:
            raise IdentityNotFound(kind="key", name=str(key_id))
        yield from self._save(lambda book: {"keys": _without(book.keys, key_id)})
        self.changed("key", key_id)

    def key(self, key_id: str) -> StoredKey | None:
        """A key, to check a secret against."""
        return self._book.keys.get(key_id)

    # Users.

    def set_user(self, name: Any, password: Any, grants: Any, quota: Any) -> Steps[None]:
        """Make a user, or give one another password, other grants and another quota."""
        check_name("user", name)
        check_password(password)
        granted, allowed = grants_of(grants), quota_of(quota)
        if name not in self._book.users:
            self._check_room()
        credential: Credential = yield from aside(lambda: Credential.of(password, PASSWORD_COST))
        scram = yield from aside(lambda: {mechanism: Scram.of(mechanism, password) for mechanism in HASHES})
        before = self._book.users.get(name)
        if before is None:
            self._check_room()
        created_ms = self._now() if before is None else before.info.created_ms
        info = UserInfo(name=name, grants=granted, quota=allowed, created_ms=created_ms)
        stored = StoredUser(info=info, credential=credential, scram=scram)
        yield from self._save_user(stored)

    def alter_user(self, name: Any, grants: list[Grant], quota: Quota) -> Steps[None]:
        """Change the grants and the quota of a user; the password stays."""

        def altered(book: AccessBook) -> dict[str, Any]:
            stored = self._known(name)
            info = msgspec.structs.replace(stored.info, grants=grants, quota=quota)
            return {"users": book.users | {name: msgspec.structs.replace(stored, info=info)}}

        yield from self._save(altered)
        self.changed("user", name)

    def set_scram(self, name: Any, mechanism: str, scram: Scram) -> Steps[None]:
        """Set a salted password for one mechanism; a user that is new has no grants.

        What was known of a password before is forgotten, except for the other mechanisms.
        """
        check_name("user", name)

        def with_scram(book: AccessBook) -> dict[str, Any]:
            stored = book.users.get(name)
            if stored is None:
                self._check_room()
                info = UserInfo(name=name, grants=[], quota=Quota(), created_ms=self._now())
                stored = StoredUser(info=info, credential=None)
            scrams = stored.scram | {mechanism: scram}
            return {
                "users": book.users | {name: msgspec.structs.replace(stored, credential=None, scram=scrams)}
            }

        yield from self._save(with_scram)
        self.changed("user", name)

    def drop_scram(self, name: Any, mechanism: str) -> Steps[None]:
        """Remove the password for one mechanism; a user without any password and grants is deleted."""
        self._refresh()
        stored = self._known(name)
        if mechanism not in stored.scram:
            raise IdentityNotFound(kind=f"{mechanism} password of", name=name)
        left = {one: scram for one, scram in stored.scram.items() if one != mechanism}
        if left or stored.credential is not None or stored.info.grants:
            yield from self._save_user(msgspec.structs.replace(stored, scram=left))
        else:
            yield from self.delete_user(name)

    def scrams(self) -> dict[str, dict[str, int]]:
        """The users that have passwords for SCRAM: by mechanism, how often each was hashed."""
        return {
            name: {mechanism: scram.iterations for mechanism, scram in stored.scram.items()}
            for name, stored in sorted(self._book.users.items())
            if stored.scram
        }

    def users(self) -> list[UserInfo]:
        return sorted((stored.info for stored in self._book.users.values()), key=lambda info: info.name)

    def delete_user(self, name: Any) -> Steps[None]:
        """Delete a user, and close the connections that logged in as it."""
        self._known(name)
        yield from self._save(lambda book: {"users": _without(book.users, name)})
        self.changed("user", name)

    def user(self, name: str) -> StoredUser | None:
        """A user, to check a password against."""
        return self._book.users.get(name)

    # ACLs.

    def acls(self) -> list[Acl]:
        """All ACLs, in the order in which they were created."""
        return self._book.acls

    def create_acls(self, acls: list[Acl]) -> Steps[None]:
        """Add ACLs; those that exist are left as they are."""
        known = set(self._book.acls)
        new = [acl for acl in dict.fromkeys(acls) if acl not in known]
        if len(self._book.acls) + len(new) > ACLS_MAX:
            raise Overloaded(what="ACLs", limit=ACLS_MAX)
        yield from self._save_acls(lambda acls: list(dict.fromkeys([*acls, *new])), new)

    def delete_acls(self, acls: list[Acl]) -> Steps[None]:
        gone = set(acls)
        yield from self._save_acls(lambda acls: [acl for acl in acls if acl not in gone], acls)

    def permissions(self, stored: StoredKey | StoredUser) -> Permissions:
        """What an identity may do now."""
        concerned = (principal_of(stored), EVERY_USER)
        acls = [acl for acl in self._book.acls if acl.principal in concerned]
        return Permissions(stored.info.grants, acls)

    def _save_acls(self, change: Callable[[list[Acl]], list[Acl]], changed: list[Acl]) -> Steps[None]:
        if change(self._book.acls) == self._book.acls:
            return
        yield from self._save(lambda book: {"acls": change(book.acls)})
        principals = {acl.principal for acl in changed}
        for one in self._identities():
            concerned = EVERY_USER in principals or principal_of(one) in principals
            if concerned and not is_super_user(one.info.grants):
                self.changed(*_kind_and_name(one))

    def _identities(self) -> list[StoredKey | StoredUser]:
        return [*self._book.keys.values(), *self._book.users.values()]

    def _known(self, name: Any) -> StoredUser:
        if name not in self._book.users:
            raise IdentityNotFound(kind="user", name=str(name))
        return self._book.users[name]

    def _save_user(self, stored: StoredUser) -> Steps[None]:
        name = stored.info.name
        yield from self._save(lambda book: {"users": book.users | {name: stored}})
        self.changed("user", name)

    def _save(self, change: Callable[[AccessBook], dict[str, Any]]) -> Steps[None]:
        """Change fields of the book, as it is when it is this change's turn."""
        with Turn(self._state, [self._changes]) as turn:
            yield from turn.wait()
            if self._error is not None:
                raise self._error
            self._refresh()
            book = msgspec.structs.replace(self._book, **change(self._book))
            yield from self._state.registry.write(ACCESS, encode_checked(book))
            self._book = book  # Only now: what is not stored did not happen.
            self._refresh()  # A later change of another node may have come meanwhile.

    def _check_room(self) -> None:
        if len(self._book.keys) + len(self._book.users) >= IDENTITIES_MAX:
            raise Overloaded(what="keys and users", limit=IDENTITIES_MAX)

    def _now(self) -> int:
        return self._state.clock.wall_ms()


def _without(known: dict[str, T], name: str) -> dict[str, T]:
    return {one: stored for one, stored in known.items() if one != name}


def principal_of(stored: StoredKey | StoredUser) -> str:
    """What Kafka calls a key or a user."""
    kind, name = _kind_and_name(stored)
    return f"{kind.capitalize()}:{name}"


def _kind_and_name(stored: StoredKey | StoredUser) -> tuple[str, str]:
    return ("key", stored.info.id) if isinstance(stored, StoredKey) else ("user", stored.info.name)


def _with_acls(book: AccessBook) -> AccessBook:
    """Convert grants in which versions before 0.2 stored ACLs."""
    users, acls = dict(book.users), dict.fromkeys(book.acls)
    for name, stored in book.users.items():
        marked = [grant for grant in stored.info.grants if MARK in grant.topics]
        if marked:
            found = acls_of(principal_of(stored), marked)
            acls |= dict.fromkeys(acl for acl in found if acl.name != MARK)
            grants = [grant for grant in stored.info.grants if grant not in marked]
            info = msgspec.structs.replace(stored.info, grants=grants)
            users[name] = msgspec.structs.replace(stored, info=info)
    return msgspec.structs.replace(book, users=users, acls=list(acls))


def check_password(password: Any) -> None:
    """Refuse an invalid password; the error does not contain it."""
    if not isinstance(password, str) or not PASSWORD_LENGTH_MIN <= len(password) <= PASSWORD_LENGTH_MAX:
        why = f"it has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters"
        raise InvalidValue(name="password", value="...", why=why)
