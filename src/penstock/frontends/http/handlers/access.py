"""API keys and users: made, listed, ended, by admins."""

import msgspec

from penstock.frontends.http.call import HttpCall
from penstock.model.access import Grant, KeyInfo, NewKey, Quota, UserInfo


class KeyToMake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key, and what it may do."""

    name: str  # What it is for.
    grants: list[Grant]
    quota: Quota | None = None


class UserToSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user's password, and what that one may do."""

    password: str
    grants: list[Grant]
    quota: Quota | None = None


class KeyList(msgspec.Struct, frozen=True):
    """The keys there are, without their secrets."""

    keys: list[KeyInfo]


class UserList(msgspec.Struct, frozen=True):
    """The users there are, without their passwords."""

    users: list[UserInfo]


async def create_key(call: HttpCall) -> NewKey:
    """Make an API key; the answer is the only place where its secret ever is."""
    wanted: KeyToMake = call.body
    return await call.run(call.operations.create_key(wanted.name, wanted.grants, wanted.quota))


async def list_keys(call: HttpCall) -> KeyList:
    """The API keys, the oldest first."""
    return KeyList(await call.run(call.operations.keys()))


async def revoke_key(call: HttpCall) -> None:
    """End an API key; whoever is connected with it is cut off."""
    await call.run(call.operations.revoke_key(call.path["id"]))


async def set_user(call: HttpCall) -> None:
    """Make a user, or give one another password, other grants and another quota."""
    wanted: UserToSet = call.body
    work = call.operations.set_user(call.path["user"], wanted.password, wanted.grants, wanted.quota)
    await call.run(work)


async def list_users(call: HttpCall) -> UserList:
    """The users, by name."""
    return UserList(await call.run(call.operations.users()))


async def delete_user(call: HttpCall) -> None:
    """End a user; whoever has logged in is cut off."""
    await call.run(call.operations.delete_user(call.path["user"]))
