"""The routes of Confluent's schema registry API; see ``handlers/schemas.py``."""

from collections.abc import Iterator
from typing import Any, Final

from penstock.frontends.http.call import Route
from penstock.frontends.http.handlers import schemas

NO_SCHEMA: Final = ("SUBJECT_NOT_FOUND", "SCHEMA_VERSION_NOT_FOUND", "SCHEMA_NOT_FOUND", "VALUE_INVALID")
INVALID: Final = ("SCHEMA_INVALID", "EXTRA_MISSING", "OVERLOADED", *NO_SCHEMA)
CHANGES: Final = ("SCHEMA_READ_ONLY", "STORAGE_FAILED", "OUTCOME_UNKNOWN", "VALUE_INVALID")
EXAMPLE: Final = {"schema": '{"type": "string"}'}


def _route(
    method: str,
    path: str,
    handler: Any,
    operation: str | None,
    errors: tuple[str, ...] = (),
    **more: Any,
) -> Route:
    """A route with what all of them have in common."""
    return Route(
        method, path, handler, operation, tag="schemas", query=schemas.SchemaQuery, errors=errors,
        registry=True, accepts=schemas.ACCEPTED, **more,
    )  # fmt: skip


def _text(path: str, handler: Any, operation: str) -> Route:
    return _route("GET", path, handler, operation, NO_SCHEMA, kind="text/plain")


SUBJECT: Final = "/subjects/{subject}"
VERSION: Final = "/subjects/{subject}/versions/{version}"
BY_ID: Final = "/schemas/ids/{id}"
CHECK: Final = "/compatibility/subjects/{subject}/versions"
SCHEMA: Final = {"body": schemas.SchemaRequest, "example": EXAMPLE}
DELETED: Final = (*NO_SCHEMA, *CHANGES, "SCHEMA_DELETED", "SCHEMA_NOT_DELETED", "SCHEMA_REFERENCED")
REGISTERED: Final = (*INVALID, *CHANGES, "SCHEMA_INCOMPATIBLE")
UNSET: Final = ("SCHEMA_SETTING_MISSING",)


def _settings(path: str, end: str) -> Iterator[Route]:
    """The routes of the settings of the registry, or of a subject."""
    config, modes = f"/config{path}", f"/mode{path}"
    show, alter, reset = "schema_settings", "alter_schema_settings", "reset_schema_setting"
    level = {"body": schemas.LevelRequest, "example": {"compatibility": "FULL"}}
    mode = {"body": schemas.ModeDocument, "example": {"mode": "READWRITE"}}
    yield _route("GET", config, schemas.get_level, show, UNSET, id=f"get_level{end}")
    yield _route("PUT", config, schemas.set_level, alter, CHANGES, id=f"set_level{end}", **level)
    yield _route("DELETE", config, schemas.reset_level, reset, (*CHANGES, *UNSET), id=f"reset_level{end}")
    yield _route("GET", modes, schemas.get_mode, show, UNSET, id=f"get_mode{end}")
    yield _route("PUT", modes, schemas.set_mode, alter, CHANGES, id=f"set_mode{end}", **mode)
    yield _route("DELETE", modes, schemas.reset_mode, reset, (*CHANGES, *UNSET), id=f"reset_mode{end}")


ROUTES: Final = (
    _route("GET", BY_ID, schemas.get_schema, "schema_uses", NO_SCHEMA),
    _route("GET", "/subjects", schemas.list_subjects, "schemas"),
    _route("POST", SUBJECT, schemas.look_up, "find_schema", INVALID, **SCHEMA),
    _route("DELETE", SUBJECT, schemas.delete_subject, "delete_schema", DELETED),
    _route("GET", f"{SUBJECT}/versions", schemas.list_versions, "schema_versions", NO_SCHEMA),
    _route("POST", f"{SUBJECT}/versions", schemas.register, "register_schema", REGISTERED, **SCHEMA),
    _route("GET", VERSION, schemas.get_version, "schema", NO_SCHEMA),
    _route("DELETE", VERSION, schemas.delete_version, "delete_schema", DELETED),
    _text(f"{VERSION}/schema", schemas.get_version_text, "schema"),
    _route("GET", f"{VERSION}/referencedby", schemas.get_referencing, "schema_references", NO_SCHEMA),
    _route("GET", "/schemas", schemas.list_schemas, "schemas"),
    _route("GET", "/schemas/types", schemas.list_schema_types, "schemas"),
    _text(f"{BY_ID}/schema", schemas.get_schema_text, "schema_uses"),
    _route("GET", f"{BY_ID}/subjects", schemas.get_schema_subjects, "schema_uses", NO_SCHEMA),
    _route("GET", f"{BY_ID}/versions", schemas.get_schema_versions, "schema_uses", NO_SCHEMA),
    _route("GET", "/contexts", schemas.list_contexts, "schemas"),
    _route("POST", CHECK, schemas.check_versions, "check_schema", INVALID, **SCHEMA),
    _route("POST", f"{CHECK}/{{version}}", schemas.check_version, "check_schema", INVALID, **SCHEMA),
    *_settings("", ""),
    *_settings("/{subject}", "_of_subject"),
)
