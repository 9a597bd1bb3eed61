"""API keys and users: create, list and delete; for admins."""

import msgspec

from penstock.frontends.http.call import HttpCall
from penstock.model.access import Grant, KeyInfo, NewKey, Quota, UserInfo


class KeyToMake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new API key and its grants."""

    name: str  # What it is for.
    grants: list[Grant]
    quota: Quota | None = None
    signing: bool = False  # It can also sign requests of SQS clients.


class UserToSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Password and grants of a user."""

    password: str
    grants: list[Grant]
    quota: Quota | None = None


class KeyList(msgspec.Struct, frozen=True):
    """API keys, without their secrets."""

    keys: list[KeyInfo]


class UserList(msgspec.Struct, frozen=True):
    """Users, without their passwords."""

    users: list[UserInfo]


async def create_key(call: HttpCall) -> NewKey:
    """Create an API key. The response is the only place where its secret is shown."""
    wanted: KeyToMake = call.body
    return await call.run(
        call.operations.create_key(wanted.name, wanted.grants, wanted.quota, wanted.signing)
    )


async def list_keys(call: HttpCall) -> KeyList:
    """List API keys, the oldest first."""
    return KeyList(call.operations.keys())


async def revoke_key(call: HttpCall) -> None:
    """Revoke an API key and close the connections that use it."""
    await call.run(call.operations.revoke_key(call.path["id"]))


async def set_user(call: HttpCall) -> None:
    """Create a user, or replace its password, grants and quota."""
    wanted: UserToSet = call.body
    work = call.operations.set_user(call.path["user"], wanted.password, wanted.grants, wanted.quota)
    await call.run(work)


async def list_users(call: HttpCall) -> UserList:
    """List users by name."""
    return UserList(call.operations.users())


async def delete_user(call: HttpCall) -> None:
    """Delete a user and close its connections."""
    await call.run(call.operations.delete_user(call.path["user"]))
