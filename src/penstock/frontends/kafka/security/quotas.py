"""Quotas of users: DescribeClientQuotas, AlterClientQuotas.

    user anna    producer_byte_rate    the bytes_per_second of her quota

That is what the two worlds have in common.  Other quotas of Kafka's (by client id, by address, of what is
read) are refused, and other quotas of Penstock's (messages, connections) stay as they are."""

from typing import Final

import msgspec

from penstock.errors import IdentityNotFound, InvalidValue, PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import cluster_code, words_of
from penstock.model.access import Quota, UserInfo
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaComponent,
    QuotaEntity,
    QuotaEntry,
    QuotaValue,
)

USER: Final = "user"
TYPES: Final = frozenset({USER, "client-id", "ip"})
RATE: Final = "producer_byte_rate"
EXACT, DEFAULT, ANY = range(3)  # How a name is asked for.


def describe_quotas(call: KafkaCall[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
    """The quotas of users that have one."""
    components = call.request.components
    types = [component.entity_type for component in components]
    try:
        if len(set(types)) < len(types) or not set(types) <= TYPES:
            why = f"each of {', '.join(sorted(TYPES))} may be requested once"
            raise InvalidValue(name="entity type", value=types, why=why)
        if any(component.match_type not in (EXACT, DEFAULT, ANY) for component in components):
            raise InvalidValue(name="match type", value="other", why="it is 0, 1 or 2")
        users = call.operations.users()
    except PenstockError as error:
        code, words = _code(error), words_of(error)
        return DescribeClientQuotasResponse(error_code=code, error_message=words, entries=None)
    entries = [
        QuotaEntry(
            entity=[QuotaEntity(USER, user.name)],
            values=[QuotaValue(RATE, float(user.quota.bytes_per_second))],
        )
        for user in users
        if user.quota.bytes_per_second is not None and _is_wanted(user, components, call.request.strict)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _is_wanted(user: UserInfo, components: list[QuotaComponent], strict: bool) -> bool:
    """A request without filters matches all; a strict one matches exactly the given entity types."""
    if not components:
        return not strict
    return all(
        component.entity_type == USER
        and (component.match_type == ANY or (component.match_type == EXACT and component.match == user.name))
        for component in components
    )


async def alter_quotas(call: KafkaCall[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[await _altered(call, entry) for entry in call.request.entries])


async def _altered(
    call: KafkaCall[AlterClientQuotasRequest], wanted: QuotaAlteration
) -> QuotaAlterationResult:
    answer = QuotaAlterationResult(error_message=None, entity=wanted.entity)
    try:
        user = _user(call, wanted)
        quota = _quota(user.quota, wanted)
        if not call.request.validate_only:
            await call.run(call.operations.alter_user(user.name, user.grants, quota))
    except PenstockError as error:
        answer.error_code, answer.error_message = _code(error), words_of(error)
    return answer


def _user(call: KafkaCall[AlterClientQuotasRequest], wanted: QuotaAlteration) -> UserInfo:
    entity = {each.entity_type: each.entity_name for each in wanted.entity}
    name = entity.get(USER)
    if entity.keys() != {USER} or name is None:
        why = "quotas are those of users, by their names"
        raise InvalidValue(name="entity", value=entity, why=why)
    for user in call.operations.users():
        if user.name == name:
            return user
    raise IdentityNotFound(kind="user", name=name)


def _quota(quota: Quota, wanted: QuotaAlteration) -> Quota:
    for change in wanted.ops:
        if change.key != RATE:
            raise InvalidValue(name="quota", value=change.key, why=f"there is {RATE}, and no other")
        if not change.remove and (change.value < 1 or change.value != int(change.value)):
            raise InvalidValue(name=RATE, value=change.value, why="it is a whole number of bytes")
        rate = None if change.remove else int(change.value)
        quota = msgspec.structs.replace(quota, bytes_per_second=rate)
    return quota


def _code(error: PenstockError) -> int:
    return Code.INVALID_REQUEST if isinstance(error, InvalidValue) else cluster_code(error)


APIS = (
    Api(DescribeClientQuotasRequest, DescribeClientQuotasResponse, describe_quotas),
    Api(AlterClientQuotasRequest, AlterClientQuotasResponse, alter_quotas),
)
