"""Who may do what, in Kafka's words: DescribeAcls, CreateAcls, DeleteAcls.

    User:anna                  a user          Key:5b2c0d9e7f10      an API key

What each may do are grants (``acl_grants``); here they are found, shown and changed.  A server that asks for
no logins holds nobody to anything, and answers as a Kafka without an authorizer does: ``SECURITY_DISABLED``.
A user whose grants have changed has to log in again."""

from typing import Any, Final, NamedTuple

from penstock.broker.at_once import now
from penstock.errors import IdentityNotFound, InvalidValue, PenstockError
from penstock.frontends.kafka.acl_grants import (
    ALLOW,
    ANY,
    EVERYWHERE,
    LITERAL,
    LOOKING,
    MATCH,
    PREFIXED,
    Acl,
    acls_of,
    check,
    grants_with,
    is_implied,
    is_made,
)
from penstock.frontends.kafka.call import Api, Call
from penstock.frontends.kafka.errors import cluster_code, words_of
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

OFF: Final = "this server asks nobody for a login, so nobody is held to anything"
USER: Final = "User:"
KEY: Final = "Key:"

Filter = DescribeAclsRequest | DeleteAclsFilter


class Held(NamedTuple):
    """An ACL, and whose it is."""

    principal: str
    acl: Acl
    made: bool  # By one of Kafka's clients, so that they may take it away.


def _held(call: Call[Any]) -> list[Held]:
    """All that there are."""
    owners = [(f"{USER}{user.name}", user.grants) for user in now(call.operations.users())]
    owners += [(f"{KEY}{key.id}", key.grants) for key in now(call.operations.keys())]
    return [
        Held(principal, acl, made)
        for principal, grants in owners
        for made in (False, True)
        for acl in acls_of(grant for grant in grants if is_made(grant) is made)
    ]


def _matches(wanted: Filter, held: Held) -> bool:
    acl = held.acl
    return (
        wanted.resource_type_filter in (ANY, acl.kind)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, ALLOW)
        and wanted.principal_filter in (None, held.principal)
        and wanted.host_filter in (None, EVERYWHERE)
        and _is_named(wanted, acl)
    )


def _is_named(wanted: Filter, acl: Acl) -> bool:
    name, pattern = wanted.resource_name_filter, wanted.pattern_type_filter
    if pattern != MATCH:
        return pattern in (ANY, acl.pattern) and name in (None, acl.name)
    if name is None or acl.name == name or (acl.pattern == LITERAL and acl.name == EVERYWHERE):
        return True
    return acl.pattern == PREFIXED and name.startswith(acl.name)


def _check_filter(wanted: Filter) -> None:
    if not (wanted.resource_type_filter and wanted.operation and wanted.permission_type):
        raise InvalidValue(name="filter", value=0, why="what is asked for has no name here")
    if not ANY <= wanted.pattern_type_filter <= PREFIXED:
        raise InvalidValue(name="filter", value=wanted.pattern_type_filter, why="that is no kind of pattern")


def describe_acls(call: Call[DescribeAclsRequest]) -> DescribeAclsResponse:
    """What users and keys may do."""
    if not call.shared.doors.required:
        return DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message=OFF)
    try:
        _check_filter(call.request)
        found = [held for held in _held(call) if _matches(call.request, held)]
    except PenstockError as error:
        return DescribeAclsResponse(error_code=_code(error), error_message=words_of(error))
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    for principal, acl, _ in dict.fromkeys(held._replace(made=False) for held in found):
        told = AclDescription(principal, EVERYWHERE, acl.operation, ALLOW)
        resources.setdefault(acl[:3], []).append(told)
    return DescribeAclsResponse(
        error_message=None,
        resources=[DescribeAclsResource(*place, acls) for place, acls in resources.items()],
    )


def create_acls(call: Call[CreateAclsRequest]) -> CreateAclsResponse:
    """Let users do more."""
    creations = call.request.creations
    if not call.shared.doors.required:
        return CreateAclsResponse(results=[AclCreationResult(Code.SECURITY_DISABLED, OFF)] * len(creations))
    try:
        drafts = Drafts(call)
    except PenstockError as error:
        refusal = AclCreationResult(_code(error), words_of(error))
        return CreateAclsResponse(results=[refusal] * len(creations))
    # Those that are a part of others come behind them, wherever they stand.
    order = sorted(range(len(creations)), key=lambda at: creations[at].operation in LOOKING)
    results = {at: _created(drafts, creations[at]) for at in order}
    drafts.save()
    return CreateAclsResponse(results=[results[at] for at in range(len(creations))])


def _created(drafts: "Drafts", wanted: AclCreation) -> AclCreationResult:
    try:
        if wanted.permission_type != ALLOW:
            why = "grants add up; there is none that takes away"
            raise InvalidValue(name="permission", value=wanted.permission_type, why=why)
        if wanted.host != EVERYWHERE:
            raise InvalidValue(name="host", value=wanted.host, why="a user is the same from anywhere: use *")
        acl = Acl(wanted.resource_type, wanted.resource_name, wanted.resource_pattern_type, wanted.operation)
        drafts.add(wanted.principal, acl)
    except PenstockError as error:
        return AclCreationResult(_code(error), words_of(error))
    return AclCreationResult(error_message=None)


def delete_acls(call: Call[DeleteAclsRequest]) -> DeleteAclsResponse:
    """Let users do less: what was given by ACLs; what was granted otherwise is refused."""
    filters = call.request.filters
    if not call.shared.doors.required:
        refusal = DeleteAclsFilterResult(Code.SECURITY_DISABLED, OFF)
        return DeleteAclsResponse(filter_results=[refusal] * len(filters))
    try:
        drafts, held = Drafts(call), _held(call)
    except PenstockError as error:
        refusal = DeleteAclsFilterResult(_code(error), words_of(error))
        return DeleteAclsResponse(filter_results=[refusal] * len(filters))
    results = [_deleted(drafts, wanted, held) for wanted in filters]
    drafts.save()
    return DeleteAclsResponse(filter_results=results)


def _deleted(drafts: "Drafts", wanted: DeleteAclsFilter, held: list[Held]) -> DeleteAclsFilterResult:
    try:
        _check_filter(wanted)
    except PenstockError as error:
        return DeleteAclsFilterResult(_code(error), words_of(error))
    found = [each for each in held if _matches(wanted, each)]
    for each in found:
        if each.made:
            drafts.remove(each.principal, each.acl)
    return DeleteAclsFilterResult(error_message=None, matching_acls=list(map(_told_deleted, found)))


def _told_deleted(held: Held) -> DeleteAclsMatchingAcl:
    kind, name, pattern, operation = held.acl
    why = None if held.made else f"it is a grant of {held.principal}, which penstock user set can change"
    return DeleteAclsMatchingAcl(
        error_code=Code.NONE if held.made else Code.INVALID_REQUEST,
        error_message=why,
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal=held.principal,
        host=EVERYWHERE,
        operation=operation,
        permission_type=ALLOW,
    )


class Drafts:
    """What users will have been given by ACLs when a request is done; one change for each user."""

    def __init__(self, call: Call[Any]) -> None:
        self._operations = call.operations
        self._users = {f"{USER}{user.name}": user for user in now(call.operations.users())}
        self._acls: dict[str, list[Acl]] = {}  # Of those that change.

    def add(self, principal: str, acl: Acl) -> None:
        """Give a user this, too."""
        user = self._users.get(principal)
        if user is None:
            if principal.startswith(KEY):
                raise InvalidValue(
                    name="principal", value=principal, why="a key keeps its grants; make another"
                )
            raise IdentityNotFound(kind="user", name=principal.removeprefix(USER))
        acls = self._draft(principal)
        if is_implied(acl, [*acls, *acls_of(user.grants)]):
            return
        check(acl)
        if acl not in acls:
            acls.append(acl)

    def remove(self, principal: str, acl: Acl) -> None:
        """Take it away."""
        acls = self._draft(principal)
        if acl in acls:
            acls.remove(acl)

    def save(self) -> None:
        """All of it happens."""
        for principal, acls in self._acls.items():
            user = self._users[principal]
            grants = grants_with(user.grants, acls)
            if grants != user.grants:
                now(self._operations.alter_user(user.name, grants, user.quota))

    def _draft(self, principal: str) -> list[Acl]:
        user = self._users[principal]
        return self._acls.setdefault(principal, acls_of(filter(is_made, user.grants)))


def _code(error: PenstockError) -> int:
    return Code.INVALID_REQUEST if isinstance(error, InvalidValue) else cluster_code(error)


APIS = (
    Api(request=DescribeAclsRequest, response=DescribeAclsResponse, handler=describe_acls),
    Api(request=CreateAclsRequest, response=CreateAclsResponse, handler=create_acls),
    Api(request=DeleteAclsRequest, response=DeleteAclsResponse, handler=delete_acls),
)
