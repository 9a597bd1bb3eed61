"""Errors as clients of a schema registry expect them: a status, Confluent's ``error_code``, and a message.

    {"error_code": 40401, "message": "Subject not found: there is no subject 'orders-value'"}

The first three digits of a code with five are the status; other errors have their status as the code.
"""

from http import HTTPStatus
from typing import Final

import msgspec

from penstock.errors import InvalidValue, PenstockError, SchemaDeleted, SchemaNotDeleted
from penstock.frontends.http import problems

CODES: Final = {
    "SUBJECT_NOT_FOUND": 40401,
    "SCHEMA_VERSION_NOT_FOUND": 40402,
    "SCHEMA_NOT_FOUND": 40403,
    "SCHEMA_INVALID": 42201,
    "SCHEMA_READ_ONLY": 42205,
    "SCHEMA_REFERENCED": 42206,
    "STORAGE_FAILED": 50001,
    "OUTCOME_UNKNOWN": 50002,
}
VALUES: Final = {"version": 42202, "compatibility": 42203, "mode": 42204, "id": 42207, "subject": 42208}


# How Confluent's registry begins its messages: programs, and the tests of its clients, look for these words.
WORDS: Final = {
    40401: "Subject not found",
    40402: "Version not found",
    40403: "Schema not found",
    409: "Schema being registered is incompatible with an earlier schema",
    42201: "Invalid schema",
    42202: "The specified version is not a valid version id",
    42203: "Invalid compatibility level",
    42204: "Invalid mode",
}


class RegistryError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as clients of a schema registry expect it."""

    error_code: int
    message: str


def answer(error: PenstockError) -> tuple[int, bytes]:
    """Status and body of an error."""
    code = error_code(error)
    detail = problems.problem(error).detail
    if code in WORDS:
        detail = f"{WORDS[code]}: {detail}"
    status = code // 100 if code >= 1000 else code
    return status, msgspec.json.encode(RegistryError(error_code=code, message=detail))


def error_code(error: PenstockError) -> int:
    if isinstance(error, SchemaDeleted):
        return 40404 if error.version == "all" else 40406
    if isinstance(error, SchemaNotDeleted):
        return 40405 if error.version == "all" else 40407
    if error.code == "SCHEMA_SETTING_MISSING":
        return 40408 if error.facts["setting"] == "compatibility" else 40409
    if isinstance(error, InvalidValue) and error.name in VALUES:
        return VALUES[error.name]
    return CODES.get(error.code) or status_of(error.code)


def status_of(code: str) -> int:
    """The status of a code; what cannot be understood is unprocessable, not a bad request."""
    if code in ("VALUE_INVALID", "REQUEST_INVALID"):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    return CODES.get(code, 0) // 100 or problems.status(code)
