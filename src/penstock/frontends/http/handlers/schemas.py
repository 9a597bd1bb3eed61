"""Confluent's schema registry API, so that the serializers of Kafka clients work unmodified.

Paths, documents and error codes are Confluent's: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
``registry_problems.py`` has the errors.  Not supported: contexts other than the
default one, metadata, rules (data contracts) and associations; a schema with rules is refused.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from penstock.errors import (
    InvalidValue,
    RequestInvalid,
    SchemaNotFound,
    SchemaSettingMissing,
)
from penstock.frontends.http.call import JSON, HttpCall
from penstock.model.schemas import NewSchema, SchemaInfo, SchemaReference, SchemaSettings, SchemaType

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ACCEPTED: Final = (JSON, MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/octet-stream")
CONTEXT: Final = "."  # The only one.
T = TypeVar("T")


class SchemaRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schema to register, look up or check."""

    schema: str
    schema_type: SchemaType | None = None
    references: list[SchemaReference] | None = None
    id: int | None = None
    version: int | None = None
    metadata: Any = None
    rule_set: Any = None

    def new(self) -> NewSchema:
        """As the broker takes it."""
        if self.rule_set or self.metadata:
            raise RequestInvalid(part="body", why="metadata and rules of data contracts are not supported")
        return NewSchema(
            schema=self.schema,
            type=self.schema_type or "AVRO",
            references=self.references or [],
            id=self.id if self.id and self.id > 0 else None,
            version=self.version if self.version and self.version > 0 else None,
        )


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    version: int


class RegisteredVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A version of a subject.  ``schemaType`` is left out for Avro."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: list[SchemaReference] = []


class SchemaById(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    schema: str
    schema_type: str = "AVRO"
    references: list[SchemaReference] = []
    max_id: int | None = None


class SubjectVersion(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    version: int


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a schema is compatible."""

    is_compatible: bool
    messages: list[str] | None = None


class LevelRequest(msgspec.Struct, frozen=True, kw_only=True):
    compatibility: str


class Level(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    compatibility_level: str


class ModeDocument(msgspec.Struct, frozen=True, kw_only=True):
    mode: str


class SchemaQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters of all routes; each uses some of them."""

    deleted: bool = False
    deleted_only: bool = False
    permanent: bool = False
    normalize: bool = False
    verbose: bool = False
    force: bool = False
    default_to_global: bool = False
    latest_only: bool = False
    fetch_max_id: bool = False
    subject: str = ""
    subject_prefix: str = ""
    format: str = ""
    offset: int = 0
    limit: int = -1


# Subjects and versions.


async def list_subjects(call: HttpCall) -> list[str]:
    """List the subjects."""
    query: SchemaQuery = call.query
    prefix = query.subject_prefix or query.subject
    infos = call.operations.schemas(deleted=query.deleted or query.deleted_only)
    alive = {info.subject for info in infos if not info.deleted}
    names = sorted(
        {info.subject for info in infos if info.subject.startswith(prefix.removeprefix(":*:"))}
        - (alive if query.deleted_only else set())
    )
    return _page(names, query)


async def list_versions(call: HttpCall) -> list[int]:
    """List the versions of a subject."""
    query: SchemaQuery = call.query
    infos = call.operations.schema_versions(call.path["subject"], query.deleted or query.deleted_only)
    return _page([info.version for info in infos if info.deleted or not query.deleted_only], query)


async def register(call: HttpCall) -> Registration:
    """Register a schema under a subject; one that it has already keeps its id."""
    wanted: SchemaRequest = call.body
    info = await call.run(call.operations.register_schema(call.path["subject"], wanted.new()))
    return Registration(id=info.id, version=info.version)


async def look_up(call: HttpCall) -> RegisteredVersion:
    """Find the version of a subject that has a schema."""
    wanted: SchemaRequest = call.body
    info = await call.run(call.operations.find_schema(call.path["subject"], wanted.new(), call.query.deleted))
    return _version(call, info)


async def get_version(call: HttpCall) -> RegisteredVersion:
    """Get a version of a subject, by its number or as `latest`."""
    return _version(call, _found(call))


async def get_version_text(call: HttpCall) -> bytes:
    """Get only the text of a version's schema."""
    return _text(call, _found(call)).encode()


async def get_referencing(call: HttpCall) -> list[int]:
    """List the ids of schemas that refer to a version."""
    return _page(call.operations.schema_references(call.path["subject"], call.path["version"]), call.query)


async def delete_subject(call: HttpCall) -> list[int]:
    """Delete all versions of a subject: softly, or with `permanent` for good."""
    return await call.run(call.operations.delete_schema(call.path["subject"], None, call.query.permanent))


async def delete_version(call: HttpCall) -> int:
    """Delete a version of a subject: softly, or with `permanent` for good."""
    [number] = await call.run(
        call.operations.delete_schema(call.path["subject"], call.path["version"], call.query.permanent)
    )
    return number


# Schemas by id.


async def list_schemas(call: HttpCall) -> list[RegisteredVersion]:
    """List all schemas, or only the latest version of each subject."""
    query: SchemaQuery = call.query
    infos = call.operations.schemas(deleted=query.deleted)
    if query.latest_only:
        infos = list({info.subject: info for info in infos}.values())
    kept = [info for info in infos if info.subject.startswith(query.subject_prefix)]
    return [_version(call, info) for info in _page(kept, query)]


async def get_schema(call: HttpCall) -> SchemaById:
    """Get a schema by its id."""
    info = _uses(call, deleted=True)[0]
    most = None
    if call.query.fetch_max_id:
        most = max(each.id for each in call.operations.schemas(deleted=True))
    return SchemaById(
        schema=_text(call, info), schema_type=info.type, references=info.references, max_id=most
    )


async def get_schema_text(call: HttpCall) -> bytes:
    """Get only the text of a schema."""
    return _text(call, _uses(call, deleted=True)[0]).encode()


async def get_schema_subjects(call: HttpCall) -> list[str]:
    """List the subjects that have a schema."""
    names = {info.subject: None for info in _uses(call, deleted=call.query.deleted)}
    return _page(list(names), call.query)


async def get_schema_versions(call: HttpCall) -> list[SubjectVersion]:
    """List the versions that have a schema."""
    infos = _uses(call, deleted=call.query.deleted)
    return _page([SubjectVersion(subject=info.subject, version=info.version) for info in infos], call.query)


async def list_schema_types(_: HttpCall) -> list[str]:
    """List the types of schemas that are supported."""
    return ["JSON", "PROTOBUF", "AVRO"]


async def list_contexts(_: HttpCall) -> list[str]:
    """List the contexts: only the default one."""
    return [CONTEXT]


# Compatibility.


async def check_version(call: HttpCall) -> Judgement:
    """Check whether a schema is compatible with one version of a subject."""
    return await _checked(call, call.path["version"])


async def check_versions(call: HttpCall) -> Judgement:
    """Check whether a schema could be registered under a subject."""
    return await _checked(call, None)


async def _checked(call: HttpCall, version: str | None) -> Judgement:
    wanted: SchemaRequest = call.body
    verdict = await call.run(call.operations.check_schema(call.path["subject"], wanted.new(), version, None))
    return Judgement(
        is_compatible=verdict.compatible, messages=verdict.messages if call.query.verbose else None
    )


# Settings.


async def get_level(call: HttpCall) -> Level:
    """Get the compatibility level of the registry or of a subject."""
    return Level(compatibility_level=_setting(call, "compatibility"))


async def set_level(call: HttpCall) -> LevelRequest:
    """Set the compatibility level of the registry or of a subject."""
    await _alter(call, {"compatibility": call.body.compatibility})
    return LevelRequest(compatibility=call.body.compatibility)


async def reset_level(call: HttpCall) -> Level:
    """Remove the compatibility level of a subject, or reset that of the registry."""
    before = await call.run(call.operations.reset_schema_setting(call.path.get("subject"), "compatibility"))
    assert before.compatibility is not None, "or it could not be reset"
    return Level(compatibility_level=before.compatibility)


async def get_mode(call: HttpCall) -> ModeDocument:
    """Get the mode of the registry or of a subject."""
    return ModeDocument(mode=_setting(call, "mode"))


async def set_mode(call: HttpCall) -> ModeDocument:
    """Set the mode of the registry or of a subject."""
    await _alter(call, {"mode": call.body.mode})
    return ModeDocument(mode=call.body.mode)


async def reset_mode(call: HttpCall) -> ModeDocument:
    """Remove the mode of a subject, or reset that of the registry."""
    before = await call.run(call.operations.reset_schema_setting(call.path.get("subject"), "mode"))
    assert before.mode is not None, "or it could not be reset"
    return ModeDocument(mode=before.mode)


def _setting(call: HttpCall, name: str) -> str:
    subject = call.path.get("subject")
    settings = call.operations.schema_settings(subject, call.query.default_to_global)
    value: str | None = getattr(settings, name)
    if value is None:
        raise SchemaSettingMissing(subject=subject or "", setting=name)
    return value


async def _alter(call: HttpCall, settings: dict[str, str]) -> None:
    try:
        wanted = msgspec.convert(settings, SchemaSettings)
    except msgspec.ValidationError:
        [(name, value)] = settings.items()
        raise InvalidValue(name=name, value=value, why="there is no such value") from None
    await call.run(call.operations.alter_schema_settings(call.path.get("subject"), wanted, call.query.force))


# Helpers.


def _found(call: HttpCall) -> SchemaInfo:
    return call.operations.schema(call.path["subject"], call.path["version"], call.query.deleted)


def _uses(call: HttpCall, *, deleted: bool) -> list[SchemaInfo]:
    """The versions with the id in the path, as far as the caller may know of them."""
    text = call.path["id"]
    found = call.operations.schema_uses(int(text), deleted) if text.isdecimal() and len(text) < 11 else []
    if call.query.subject:
        found = [info for info in found if info.subject == call.query.subject] or found
    if not found:
        raise SchemaNotFound(what=f"id {text}")
    return found


def _text(call: HttpCall, info: SchemaInfo) -> str:
    return info.descriptor if call.query.format == "serialized" and info.descriptor else info.schema


def _version(call: HttpCall, info: SchemaInfo) -> RegisteredVersion:
    return RegisteredVersion(
        subject=info.subject,
        version=info.version,
        id=info.id,
        schema=_text(call, info),
        schema_type=info.type,
        references=info.references,
    )


def _page(items: Sequence[T], query: SchemaQuery) -> list[T]:
    start = max(query.offset, 0)
    return list(items[start:] if query.limit < 0 else items[start : start + query.limit])
