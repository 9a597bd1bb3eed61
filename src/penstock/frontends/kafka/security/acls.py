"""ACLs by Kafka's admin clients: DescribeAcls, CreateAcls, DeleteAcls.

    User:anna                  a user          Key:5b2c0d9e7f10      an API key
    User:*                     everybody who logs in

ACLs are stored beside the users (``broker/access/access.py``) and enforced together with grants
(``access.Permissions``).  DescribeAcls also shows grants, as the ACLs that come to the same; those cannot be
deleted here.  Super users are not listed, as in Kafka: no ACL applies to them.  A server without logins
enforces nothing and answers like a Kafka without an authorizer: ``SECURITY_DISABLED``.

Not supported: hosts other than ``*``, delegation tokens, and ``User`` as a resource.
"""

from typing import Any, Final, NamedTuple

from penstock.errors import InvalidValue, PenstockError
from penstock.frontends.kafka.acl_codes import (
    ALLOW,
    ANY,
    DENY,
    EVERYWHERE,
    LITERAL,
    MATCH,
    OPERATION_CODES,
    OPERATIONS,
    PREFIXED,
    RESOURCE_CODES,
    RESOURCES,
)
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import cluster_code, words_of
from penstock.model.access import ANY as ALL_NAMES
from penstock.model.access import Acl, acls_of, is_super_user
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.acls import (
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

OFF: Final = "this server requires no logins, so it enforces no ACLs"

Filter = DescribeAclsRequest | DeleteAclsFilter


class Listed(NamedTuple):
    """An ACL as it is shown."""

    acl: Acl
    granted: bool = False  # It stands for a grant, so admin clients cannot delete it.


def _listed(call: KafkaCall[Any]) -> list[Listed]:
    """All ACLs, then those that are equivalent to grants of principals that ACLs apply to."""
    stored = [Listed(acl) for acl in call.operations.acls()]
    owners = [(f"User:{user.name}", user.grants) for user in call.operations.users()]
    keys = call.operations.keys()
    owners += [(f"Key:{key.id}", key.grants) for key in keys]
    return stored + [
        Listed(acl, granted=True)
        for principal, grants in owners
        if not is_super_user(grants)
        for acl in acls_of(principal, grants)
    ]


def _matches(wanted: Filter, acl: Acl) -> bool:
    return (
        wanted.resource_type_filter in (ANY, RESOURCE_CODES[acl.resource])
        and wanted.operation in (ANY, OPERATION_CODES[acl.operation])
        and wanted.permission_type in (ANY, _permission(acl))
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, EVERYWHERE)
        and _is_named(wanted, acl)
    )


def _is_named(wanted: Filter, acl: Acl) -> bool:
    name, pattern = wanted.resource_name_filter, wanted.pattern_type_filter
    if pattern != MATCH:
        return pattern in (ANY, _pattern(acl)) and name in (None, acl.name)
    if name is None or acl.name == name or (acl.name == ALL_NAMES and not acl.prefixed):
        return True
    return acl.prefixed and name.startswith(acl.name)


def _check_filter(wanted: Filter) -> None:
    if not (wanted.resource_type_filter and wanted.operation and wanted.permission_type):
        raise InvalidValue(name="filter", value=0, why="0 is no resource type, operation or permission")
    if not ANY <= wanted.pattern_type_filter <= PREFIXED:
        why = "pattern types are ANY, MATCH, LITERAL and PREFIXED"
        raise InvalidValue(name="filter", value=wanted.pattern_type_filter, why=why)


def _permission(acl: Acl) -> int:
    return ALLOW if acl.allow else DENY


def _pattern(acl: Acl) -> int:
    return PREFIXED if acl.prefixed else LITERAL


def describe_acls(call: KafkaCall[DescribeAclsRequest]) -> DescribeAclsResponse:
    if not call.shared.gateway.required:
        return DescribeAclsResponse(error_code=Code.SECURITY_DISABLED, error_message=OFF)
    try:
        _check_filter(call.request)
        found = [each.acl for each in _listed(call) if _matches(call.request, each.acl)]
    except PenstockError as error:
        return DescribeAclsResponse(error_code=_code(error), error_message=words_of(error))
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in dict.fromkeys(found):
        resource = (RESOURCE_CODES[acl.resource], acl.name, _pattern(acl))
        description = AclDescription(
            acl.principal, EVERYWHERE, OPERATION_CODES[acl.operation], _permission(acl)
        )
        resources.setdefault(resource, []).append(description)
    return DescribeAclsResponse(
        error_message=None,
        resources=[DescribeAclsResource(*resource, acls) for resource, acls in resources.items()],
    )


async def create_acls(call: KafkaCall[CreateAclsRequest]) -> CreateAclsResponse:
    """Store the ACLs that are valid, all in one change, and refuse the others one by one."""
    creations = call.request.creations
    if not call.shared.gateway.required:
        return CreateAclsResponse(results=[AclCreationResult(Code.SECURITY_DISABLED, OFF)] * len(creations))
    results: list[AclCreationResult] = []
    valid: list[Acl] = []
    for wanted in creations:
        try:
            valid.append(_acl(wanted))
            results.append(AclCreationResult(error_message=None))
        except PenstockError as error:
            results.append(_refused(error))
    try:
        await call.run(call.operations.create_acls(valid))
    except PenstockError as error:
        return CreateAclsResponse(results=[_refused(error)] * len(creations))
    return CreateAclsResponse(results=results)


def _refused(error: PenstockError) -> AclCreationResult:
    return AclCreationResult(_code(error), words_of(error))


def _acl(wanted: AclCreation) -> Acl:
    resource, operation = RESOURCES.get(wanted.resource_type), OPERATIONS.get(wanted.operation)
    if resource is None:
        why = f"ACLs are on a {', '.join(RESOURCE_CODES)}"
        raise InvalidValue(name="resource type", value=wanted.resource_type, why=why)
    if operation is None or wanted.permission_type not in (DENY, ALLOW):
        why = "an ACL allows or denies one operation"
        raise InvalidValue(name="operation", value=(wanted.operation, wanted.permission_type), why=why)
    if wanted.resource_pattern_type not in (LITERAL, PREFIXED):
        why = "an ACL has a literal name or a prefix"
        raise InvalidValue(name="pattern type", value=wanted.resource_pattern_type, why=why)
    if wanted.host != EVERYWHERE:
        raise InvalidValue(name="host", value=wanted.host, why="ACLs do not depend on addresses; use *")
    prefixed = wanted.resource_pattern_type == PREFIXED
    return Acl(
        wanted.principal,
        resource,
        wanted.resource_name,
        prefixed,
        operation,
        allow=wanted.permission_type == ALLOW,
    )


async def delete_acls(call: KafkaCall[DeleteAclsRequest]) -> DeleteAclsResponse:
    """Delete the ACLs that match the filters; those that are equivalent to a grant are refused."""
    filters = call.request.filters
    if not call.shared.gateway.required:
        refusal = DeleteAclsFilterResult(Code.SECURITY_DISABLED, OFF)
        return DeleteAclsResponse(filter_results=[refusal] * len(filters))
    try:
        listed = _listed(call)
        results = [_found(wanted, listed) for wanted in filters]
        deleted = [each.acl for _, found in results for each in found if not each.granted]
        await call.run(call.operations.delete_acls(deleted))
    except PenstockError as error:
        refusal = DeleteAclsFilterResult(_code(error), words_of(error))
        return DeleteAclsResponse(filter_results=[refusal] * len(filters))
    return DeleteAclsResponse(filter_results=[result for result, _ in results])


def _found(wanted: DeleteAclsFilter, listed: list[Listed]) -> tuple[DeleteAclsFilterResult, list[Listed]]:
    try:
        _check_filter(wanted)
    except PenstockError as error:
        return DeleteAclsFilterResult(_code(error), words_of(error)), []
    found = [each for each in listed if _matches(wanted, each.acl)]
    return DeleteAclsFilterResult(error_message=None, matching_acls=list(map(_deletion, found))), found


def _deletion(each: Listed) -> DeleteAclsMatchingAcl:
    acl = each.acl
    why = f"it stands for a grant of {acl.principal}; change that with `penstock user set`"
    return DeleteAclsMatchingAcl(
        error_code=Code.INVALID_REQUEST if each.granted else Code.NONE,
        error_message=why if each.granted else None,
        resource_type=RESOURCE_CODES[acl.resource],
        resource_name=acl.name,
        pattern_type=_pattern(acl),
        principal=acl.principal,
        host=EVERYWHERE,
        operation=OPERATION_CODES[acl.operation],
        permission_type=_permission(acl),
    )


def _code(error: PenstockError) -> int:
    return Code.INVALID_REQUEST if isinstance(error, InvalidValue) else cluster_code(error)


APIS = (
    Api(DescribeAclsRequest, DescribeAclsResponse, describe_acls),
    Api(CreateAclsRequest, CreateAclsResponse, create_acls),
    Api(DeleteAclsRequest, DeleteAclsResponse, delete_acls),
)
