"""Passwords of users, set by admin clients: DescribeUserScramCredentials, AlterUserScramCredentials.

A client salts a password itself and sends what came of it, so what is stored here is good for checking that
password by one mechanism.  A new user has no permissions until it gets a grant."""

from typing import Final

from penstock.broker.frontend import HASHES, ITERATIONS, Scram
from penstock.errors import InvalidName, PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import cluster_code, words_of
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}  # By Kafka's numbers.
NUMBERS: Final = {name: number for number, name in MECHANISMS.items()}
SIZES: Final = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}  # Bytes of a salted password.
ITERATIONS_MIN: Final = 4096  # Kafka's bounds: fewer are too easy to try, and more keep every client busy.
ITERATIONS_MAX: Final = 2 * ITERATIONS
SALT_BYTES_MAX: Final = 1000
assert HASHES.keys() == NUMBERS.keys()

Change = ScramCredentialDeletion | ScramCredentialUpsertion
Refusal = tuple[int, str | None]


def describe_credentials(
    call: KafkaCall[DescribeUserScramCredentialsRequest],
) -> DescribeUserScramCredentialsResponse:
    """The users that have passwords, with their mechanisms."""
    try:
        known = call.operations.scrams()
    except PenstockError as error:
        return DescribeUserScramCredentialsResponse(
            error_code=cluster_code(error), error_message=words_of(error)
        )
    names = [user.name for user in call.request.users or ()] or list(known)
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_described(name, known.get(name), names.count(name)) for name in dict.fromkeys(names)],
    )


def _described(name: str, known: dict[str, int] | None, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code, why = Code.DUPLICATE_RESOURCE, "it is requested twice"
        return DescribeUserScramCredentialsResult(name, code, why)
    if known is None:
        code, why = Code.RESOURCE_NOT_FOUND, f"there is no password of {name} for SCRAM"
        return DescribeUserScramCredentialsResult(name, code, why)
    infos = [CredentialInfo(NUMBERS[mechanism], iterations) for mechanism, iterations in known.items()]
    return DescribeUserScramCredentialsResult(name, error_message=None, credential_infos=infos)


async def alter_credentials(
    call: KafkaCall[AlterUserScramCredentialsRequest],
) -> AlterUserScramCredentialsResponse:
    """Set and remove passwords; all changes of a user, or none."""
    by_user: dict[str, list[Change]] = {}
    changes: list[Change] = [*call.request.deletions, *call.request.upsertions]
    for change in changes:
        by_user.setdefault(change.name, []).append(change)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(name, *await _altered(call, of_user))
            for name, of_user in by_user.items()
        ]
    )


async def _altered(call: KafkaCall[AlterUserScramCredentialsRequest], changes: list[Change]) -> Refusal:
    for change in changes:
        code, why = _check(change, [each.mechanism for each in changes])
        if code:
            return code, why
    try:
        known = call.operations.scrams()
        for change in changes:
            mechanism = MECHANISMS[change.mechanism]
            if isinstance(change, ScramCredentialDeletion) and mechanism not in known.get(change.name, ()):
                return Code.RESOURCE_NOT_FOUND, f"there is no password of {change.name} for {mechanism}"
        for change in changes:
            await _apply(call, change)
    except InvalidName as error:
        return Code.UNACCEPTABLE_CREDENTIAL, words_of(error)
    except PenstockError as error:
        return cluster_code(error), words_of(error)
    return Code.NONE, None


def _check(change: Change, mechanisms: list[int]) -> Refusal:
    """The error of a single change."""
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        return Code.UNSUPPORTED_SASL_MECHANISM, f"there are {', '.join(NUMBERS)}"
    if mechanisms.count(change.mechanism) > 1:
        return Code.DUPLICATE_RESOURCE, f"{mechanism} of {change.name} is changed twice"
    if isinstance(change, ScramCredentialDeletion):
        return Code.NONE, None
    if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        why = f"iterations are between {ITERATIONS_MIN} and {ITERATIONS_MAX}"
        return Code.UNACCEPTABLE_CREDENTIAL, why
    if not 0 < len(change.salt) <= SALT_BYTES_MAX or len(change.salted_password) != SIZES[mechanism]:
        return Code.UNACCEPTABLE_CREDENTIAL, "that is no salt, or no salted password"
    return Code.NONE, None


async def _apply(call: KafkaCall[AlterUserScramCredentialsRequest], change: Change) -> None:
    mechanism = MECHANISMS[change.mechanism]
    if isinstance(change, ScramCredentialDeletion):
        await call.run(call.operations.drop_scram(change.name, mechanism))
    else:
        scram = Scram.of_salted(mechanism, change.salt, change.iterations, change.salted_password)
        await call.run(call.operations.set_scram(change.name, mechanism, scram))


APIS = (
    Api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse, describe_credentials),
    Api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, alter_credentials),
)
