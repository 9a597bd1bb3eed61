"""Schemas that cannot be registered, found, changed or deleted."""

from penstock.errors.base import RequestError


class SchemaInvalid(RequestError):
    """The text is not a valid schema.

    Cause: a syntax error, an unknown type, a missing reference, or a construct that is not supported.
    Do: correct the schema; the message says where.
    """

    code = "SCHEMA_INVALID"
    sentence = "this is not a valid {type} schema: {why}"
    type: str
    why: str


class SchemaIncompatible(RequestError):
    """The schema breaks the compatibility level of its subject.

    Cause: consumers with the other version of the schema could not read the data.
    Do: change the schema (``POST /compatibility/subjects/{subject}/versions?verbose=true`` lists all
        reasons), register it under another subject, or lower the level of this one.
    """

    code = "SCHEMA_INCOMPATIBLE"
    sentence = "the schema is not {level} compatible with version {version} of {subject!r}: {why}"
    subject: str
    version: int
    level: str
    why: str


class SubjectNotFound(RequestError):
    """The registry has no such subject.

    Cause: a misspelt name, or no schema was registered under it, or all of them were deleted.
    Do: check the name (``GET /subjects``), or register a schema.
    """

    code = "SUBJECT_NOT_FOUND"
    sentence = "there is no subject {subject!r}"
    subject: str


class SchemaVersionNotFound(RequestError):
    """The subject has no such version.

    Cause: it was never registered, or it was deleted.
    Do: list the versions (``GET /subjects/{subject}/versions``).
    """

    code = "SCHEMA_VERSION_NOT_FOUND"
    sentence = "subject {subject!r} has no version {version}"
    subject: str
    version: str


class SchemaNotFound(RequestError):
    """The registry does not have this schema.

    Cause: no schema has this id, or the subject does not have this text.
    Do: register it first; a value with an unknown id was written for another registry.
    """

    code = "SCHEMA_NOT_FOUND"
    sentence = "there is no such schema: {what}"
    what: str


class SchemaDeleted(RequestError):
    """The subject or version is softly deleted already.

    Cause: it was deleted before.
    Do: delete it permanently, or register the schema again to restore it.
    """

    code = "SCHEMA_DELETED"
    sentence = "{subject!r}, version {version}, is deleted already; delete it permanently"
    subject: str
    version: str


class SchemaNotDeleted(RequestError):
    """A subject or version can be deleted permanently only after a soft deletion.

    Cause: ``permanent`` was set in the first deletion.
    Do: delete it without ``permanent`` first.
    """

    code = "SCHEMA_NOT_DELETED"
    sentence = "{subject!r}, version {version}, must be softly deleted before it is deleted permanently"
    subject: str
    version: str


class SchemaSettingMissing(RequestError):
    """The subject has no such setting of its own.

    Cause: it follows the setting of the whole registry.
    Do: ask for the setting that is in effect (``defaultToGlobal=true``).
    """

    code = "SCHEMA_SETTING_MISSING"
    sentence = "subject {subject!r} has no {setting} of its own"
    subject: str
    setting: str


class SchemaReadOnly(RequestError):
    """The mode of the registry or subject does not allow this change.

    Cause: the mode is READONLY, or the change is one that only IMPORT allows.
    Do: change the mode, unless it was set on purpose.
    """

    code = "SCHEMA_READ_ONLY"
    sentence = "{subject!r} is in mode {mode}, which does not allow this"
    subject: str
    mode: str


class SchemaReferenced(RequestError):
    """Other schemas refer to the schema that is to be deleted.

    Cause: it is a reference of a registered schema.
    Do: delete those schemas first.
    """

    code = "SCHEMA_REFERENCED"
    sentence = "version {version} of {subject!r} is referenced by schemas with these ids: {by}"
    subject: str
    version: int
    by: str


class SchemaMismatch(RequestError):
    """A value does not match the schema of its topic, which validates values.

    Cause: the topic's ``validation`` is on, and the value has other fields or types than its schema, or names
        a schema that is not registered under ``<topic>-value``.
    Do: correct the value (the message says where), or register the schema that it was made with.
    """

    code = "SCHEMA_MISMATCH"
    sentence = "message {index} for topic {topic!r} does not match {schema}: at {where}: {why}"
    topic: str
    index: int  # Of the message in what was published.
    schema: str
    where: str
    why: str

    def __init__(self, *, topic: str, index: int, schema: str, where: str, why: str) -> None:
        super().__init__(topic=topic, index=index, schema=schema, where=where, why=why)
        self.reasons: dict[int, str] = {}  # Of all that do not match, by their indexes.
