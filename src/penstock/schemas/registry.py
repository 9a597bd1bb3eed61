"""The state of a schema registry: subjects, versions, ids, compatibility levels and modes.

    subject orders-value       version 1 ── id 7 ──> schema
                               version 2 ── id 9 ──> schema ── references ──> address, version 1

A state machine without I/O.  ``SchemaBook`` is what is stored.  It is never changed: a change returns a new
book, which counts once it is stored.  The rules are those of Confluent's registry:

- A schema has one id, whatever its subjects; registering it again returns that id and version.
- A new version must be compatible with the last one of its subject, or with all (transitive levels).
- A deletion is soft first: the version is not listed, and its id still resolves.  A permanent one follows.
- Version numbers and ids are not reused.

Cost: parsed schemas are cached (``PARSED_MAX``); everything else is a look-up.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from penstock.errors import (
    InvalidValue,
    Overloaded,
    PenstockError,
    SchemaDeleted,
    SchemaIncompatible,
    SchemaInvalid,
    SchemaNotDeleted,
    SchemaNotFound,
    SchemaReadOnly,
    SchemaReferenced,
    SchemaSettingMissing,
    SchemaVersionNotFound,
    SubjectNotFound,
)
from penstock.model.schemas import (
    Compatibility,
    NewSchema,
    SchemaInfo,
    SchemaMode,
    SchemaReference,
    SchemaSettings,
    SchemaType,
    SchemaVerdict,
)
from penstock.schemas.formats import MESSAGES_MAX, ParsedSchema, check_size, parse

SUBJECT_LENGTH_MAX: Final = 500
SCHEMAS_MAX: Final = 10_000  # They are one document, which is written as a whole.
REFERENCE_DEPTH_MAX: Final = 20
REFERENCES_MAX: Final = 1000  # Of one schema, with those of its references.
ID_MAX: Final = (1 << 31) - 1  # Serializers write it in 4 bytes.
MESSAGE_LENGTH_MAX: Final = 500  # Of one difference; it may quote all of a schema.
PARSED_MAX: Final = 1000
ALL: Final = "all"  # Versions, in errors.
LATEST: Final = ("latest", "-1")
READ_ONLY_MODES: Final = ("READONLY", "READONLY_OVERRIDE")

# By id and fingerprint: an import may give the id of a deleted schema to another one.
ParsedSchemas = dict[tuple[int, str], ParsedSchema]
Compile = Callable[[str, dict[str, str]], str]  # A .proto file and its imports: a descriptor in base64.


class StoredSchema(msgspec.Struct, frozen=True, kw_only=True):
    type: SchemaType
    schema: str
    fingerprint: str  # Of its canonical text and references: equal schemas have the same id.
    references: list[SchemaReference] = []
    descriptor: str = ""


class StoredVersion(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    id: int
    deleted: bool = False


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    versions: list[StoredVersion] = []
    compatibility: Compatibility | None = None
    mode: SchemaMode | None = None

    def present(self, *, deleted: bool = False) -> list[StoredVersion]:
        return [each for each in self.versions if deleted or not each.deleted]


class SchemaBook(msgspec.Struct, frozen=True, kw_only=True):
    last_id: int = 0
    schemas: dict[int, StoredSchema] = {}
    subjects: dict[str, Subject] = {}
    compatibility: Compatibility = "BACKWARD"
    mode: SchemaMode = "READWRITE"


class SchemaRegistry:
    """Queries and changes of a registry's state."""

    def __init__(self, book: SchemaBook, compile_proto: Compile, parsed: ParsedSchemas) -> None:
        self.book = book
        self._compile = compile_proto
        self._parsed = parsed

    # Questions.

    def subjects(self, *, deleted: bool = False) -> list[str]:
        return sorted(name for name, each in self.book.subjects.items() if each.present(deleted=deleted))

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaInfo]:
        return [
            self._info(subject, each)
            for each in self._subject(subject, deleted=deleted).present(deleted=deleted)
        ]

    def version(self, subject: str, version: int | str, *, deleted: bool = False) -> SchemaInfo:
        return self._info(subject, self._version(subject, version, deleted=deleted))

    def ids(self, subject: str) -> dict[int, int]:
        """The versions of a subject by their schema ids, the latest last; empty if there is no subject."""
        known = self.book.subjects.get(subject, Subject())
        return {each.id: each.version for each in known.present()}

    def by_id(self, schema_id: int) -> SchemaInfo:
        """A schema by its id, as the first subject that has it, also if it is softly deleted."""
        for info in self.uses(schema_id, deleted=True):
            return info
        raise SchemaNotFound(what=f"id {schema_id}")

    def uses(self, schema_id: int, *, deleted: bool = False) -> Iterator[SchemaInfo]:
        """The versions that have an id."""
        for name, subject in self.book.subjects.items():
            for each in subject.present(deleted=deleted):
                if each.id == schema_id:
                    yield self._info(name, each)

    def referenced_by(self, subject: str, version: int | str) -> list[int]:
        """Ids of schemas that refer to a version."""
        number = self._version(subject, version, deleted=True).version
        return [
            each
            for each, schema in self.book.schemas.items()
            if any((ref.subject, ref.version) == (subject, number) for ref in schema.references)
            and next(self.uses(each), None) is not None
        ]

    def settings(self, subject: str | None, *, effective: bool) -> SchemaSettings:
        """The settings of the registry, or of a subject: only its own, or those in effect."""
        book = self.book
        if subject is None:
            return SchemaSettings(compatibility=book.compatibility, mode=book.mode)
        own = book.subjects.get(subject, Subject())
        if not effective:
            return SchemaSettings(compatibility=own.compatibility, mode=own.mode)
        mode = book.mode if book.mode == "READONLY_OVERRIDE" else own.mode or book.mode
        return SchemaSettings(compatibility=own.compatibility or book.compatibility, mode=mode)

    def find(self, subject: str, new: NewSchema, *, deleted: bool = False) -> SchemaInfo:
        """The version of a subject that has this schema."""
        present = self._subject(subject, deleted=deleted).present(deleted=deleted)
        fingerprint = self._prepared(new)[0].fingerprint
        for each in present:
            if self.book.schemas[each.id].fingerprint == fingerprint:
                return self._info(subject, each)
        raise SchemaNotFound(what=f"subject {subject!r} does not have this text")

    def check(
        self, subject: str, new: NewSchema, version: int | str | None, level: Compatibility | None = None
    ) -> SchemaVerdict:
        """Whether a schema could be registered; compared with one version, or as the level says."""
        parsed = self._prepared(new)[1]
        known = self.book.subjects.get(subject, Subject())
        level = level or self._level(subject)
        if version is None:
            against = _against(level, known.present())
        elif str(version) in LATEST:
            against = known.present()[-1:]
        else:
            against = [self._version(subject, version)]
        problems = [
            f"{why} (version {each.version})"
            for each in against
            for why in self._incompatible(level, parsed, each)
        ]
        return SchemaVerdict(compatible=not problems, messages=problems[:MESSAGES_MAX])

    def parsed(self, schema_id: int) -> ParsedSchema:
        """The parsed schema of an id."""
        stored = self.book.schemas.get(schema_id)
        if stored is None:
            raise SchemaNotFound(what=f"id {schema_id}")
        place = schema_id, stored.fingerprint
        found = self._parsed.get(place)
        if found is None:
            found = parse(stored.type, stored.schema, self._references(stored.references), stored.descriptor)
            if len(self._parsed) >= PARSED_MAX:
                self._parsed.clear()
            self._parsed[place] = found
        return found

    # Changes: each returns the new book with its result.

    def register(self, subject: str, new: NewSchema) -> tuple[SchemaBook, SchemaInfo]:
        _check_subject(subject)
        mode = self._mode(subject)
        if mode in READ_ONLY_MODES or (mode != "IMPORT" and new.id is not None):
            raise SchemaReadOnly(subject=subject, mode=mode)
        known = self.book.subjects.get(subject, Subject())
        stored, parsed = self._prepared(new)
        for each in known.present():
            if self.book.schemas[each.id].fingerprint == stored.fingerprint:
                return self.book, self._info(subject, each)
        following = max((each.version for each in known.versions), default=0) + 1
        number = following if new.version is None else version_number(new.version)
        if mode != "IMPORT" and number != following:
            raise InvalidValue(
                name="version", value=number, why=f"the next one of {subject!r} is {following}"
            )
        if mode != "IMPORT":
            self._check_compatible(subject, known, parsed)
        schema_id = self._id_for(stored, new.id)
        if schema_id not in self.book.schemas and len(self.book.schemas) >= SCHEMAS_MAX:
            raise Overloaded(what="schemas in the registry", limit=SCHEMAS_MAX)
        if any(each.version == number for each in known.versions):
            raise InvalidValue(name="version", value=number, why=f"{subject!r} has it already")
        versions = sorted(
            [*known.versions, StoredVersion(version=number, id=schema_id)], key=lambda each: each.version
        )
        book = msgspec.structs.replace(
            self.book,
            last_id=max(self.book.last_id, schema_id),
            schemas=self.book.schemas | {schema_id: stored},
            subjects=self.book.subjects | {subject: msgspec.structs.replace(known, versions=versions)},
        )
        return book, SchemaRegistry(book, self._compile, self._parsed).version(subject, number)

    def delete(
        self, subject: str, version: int | str | None, *, permanent: bool
    ) -> tuple[SchemaBook, list[int]]:
        """Delete a version, or all of them; returns their numbers."""
        mode = self._mode(subject)
        if mode in READ_ONLY_MODES:
            raise SchemaReadOnly(subject=subject, mode=mode)
        known = self._subject(subject, deleted=True)
        doomed = self._doomed(subject, known, version, permanent=permanent)
        for each in doomed:
            users = self.referenced_by(subject, each.version)
            if users:
                by = ", ".join(map(str, users))
                raise SchemaReferenced(subject=subject, version=each.version, by=by)
        numbers = [each.version for each in doomed]
        if permanent:
            versions = [each for each in known.versions if each.version not in numbers]
        else:
            versions = [
                msgspec.structs.replace(each, deleted=True) if each.version in numbers else each
                for each in known.versions
            ]
        changed = msgspec.structs.replace(known, versions=versions)
        if version is None:  # The next life of the subject begins without them.
            changed = Subject(versions=versions)
        subjects = self.book.subjects | {subject: changed}
        if changed == Subject():
            del subjects[subject]
        return _without_unused(msgspec.structs.replace(self.book, subjects=subjects)), numbers

    def alter(self, subject: str | None, settings: SchemaSettings, *, force: bool) -> SchemaBook:
        """Set what ``settings`` has; None leaves a setting as it is."""
        if subject is not None:
            _check_subject(subject)
        has_schemas = bool(
            self.book.schemas if subject is None else self.book.subjects.get(subject, Subject()).present()
        )
        if settings.mode == "IMPORT" and has_schemas and not force:
            raise SchemaReadOnly(subject=subject or "the registry", mode="READWRITE with schemas")
        changes = {key: each for key, each in msgspec.structs.asdict(settings).items() if each is not None}
        return self._with_settings(subject, changes)

    def reset(self, subject: str | None, setting: str) -> tuple[SchemaBook, SchemaSettings]:
        """Forget a setting of a subject, or that of the registry; returns what was set."""
        before = self.settings(subject, effective=False)
        if getattr(before, setting) is None:
            raise SchemaSettingMissing(subject=subject or "", setting=setting)
        default = None if subject is not None else getattr(SchemaBook(), setting)
        return self._with_settings(subject, {setting: default}), before

    def _with_settings(self, subject: str | None, changes: dict[str, str | None]) -> SchemaBook:
        if subject is None:
            return msgspec.structs.replace(self.book, **changes)
        changed = msgspec.structs.replace(self.book.subjects.get(subject, Subject()), **changes)
        subjects = self.book.subjects | {subject: changed}
        if changed == Subject():
            del subjects[subject]
        return msgspec.structs.replace(self.book, subjects=subjects)

    # Looking things up.

    def _subject(self, subject: str, *, deleted: bool) -> Subject:
        found = self.book.subjects.get(subject)
        if found is None or not found.present(deleted=deleted):
            raise SubjectNotFound(subject=subject)
        return found

    def _version(self, subject: str, version: int | str, *, deleted: bool = False) -> StoredVersion:
        present = self._subject(subject, deleted=deleted).present(deleted=deleted)
        if str(version) in LATEST:
            return present[-1]
        number = version_number(version)
        for each in present:
            if each.version == number:
                return each
        raise SchemaVersionNotFound(subject=subject, version=str(number))

    def _info(self, subject: str, version: StoredVersion) -> SchemaInfo:
        stored = self.book.schemas[version.id]
        return SchemaInfo(
            subject=subject,
            version=version.version,
            id=version.id,
            type=stored.type,
            schema=stored.schema,
            references=stored.references,
            deleted=version.deleted,
            descriptor=stored.descriptor,
        )

    def _level(self, subject: str) -> Compatibility:
        level = self.settings(subject, effective=True).compatibility
        assert level is not None, "the registry has one"
        return level

    def _mode(self, subject: str) -> SchemaMode:
        mode = self.settings(subject, effective=True).mode
        assert mode is not None, "the registry has one"
        return mode

    # Parsing and comparing.

    def _prepared(self, new: NewSchema) -> tuple[StoredSchema, ParsedSchema]:
        """A new schema as it would be stored."""
        check_size(new.type, new.schema)
        references = self._references(new.references)
        descriptor, text = "", new.schema
        if new.type == "PROTOBUF":
            descriptor = self._descriptor(new)
        parsed = parse(new.type, new.schema, references, descriptor)
        text = getattr(parsed, "text", None) or parsed.canonical
        identity = [
            new.type,
            parsed.canonical,
            *sorted(f"{each.name} {each.subject} {each.version}" for each in new.references),
        ]
        stored = StoredSchema(
            type=new.type,
            schema=text,
            fingerprint=sha256("\0".join(identity).encode()).hexdigest(),
            references=list(new.references),
            descriptor=getattr(parsed, "serialized", ""),
        )
        return stored, parsed

    def _descriptor(self, new: NewSchema) -> str:
        from penstock.schemas.protobuf import descriptor_of

        if descriptor_of(new.schema) is not None:
            return ""
        texts: dict[str, str] = {}
        self._collect_texts(new.references, texts, 0, set())
        return self._compile(new.schema, texts)

    def _collect_texts(
        self, references: list[SchemaReference], texts: dict[str, str], depth: int, seen: set[str]
    ) -> None:
        for each in references:
            stored = self._referenced(each, depth)
            texts[each.name] = stored.schema
            if stored.fingerprint not in seen:
                seen.add(stored.fingerprint)
                self._collect_texts(stored.references, texts, depth + 1, seen)

    def _referenced(self, reference: SchemaReference, depth: int) -> StoredSchema:
        if depth > REFERENCE_DEPTH_MAX:
            raise SchemaInvalid(type="", why=f"references are nested more than {REFERENCE_DEPTH_MAX} levels")
        try:
            found = self._version(reference.subject, reference.version, deleted=True)
        except PenstockError as error:
            raise SchemaInvalid(type="", why=f"the reference {reference.name!r}: {error}") from None
        return self.book.schemas[found.id]

    def _references(
        self, references: list[SchemaReference], depth: int = 0, known: dict[str, ParsedSchema] | None = None
    ) -> dict[str, ParsedSchema]:
        """What a schema refers to, by name; each is parsed once (``known``), in however many ways."""
        known = {} if known is None else known
        parsed = {}
        for each in references:
            stored = self._referenced(each, depth)
            if stored.fingerprint not in known:
                inner = self._references(stored.references, depth + 1, known)
                known[stored.fingerprint] = parse(stored.type, stored.schema, inner, stored.descriptor)
            parsed[each.name] = known[stored.fingerprint]
        if max(len(known), len(references)) > REFERENCES_MAX:
            raise SchemaInvalid(type="", why=f"it has more than {REFERENCES_MAX} references")
        return parsed

    def _check_compatible(self, subject: str, known: Subject, parsed: ParsedSchema) -> None:
        level = self._level(subject)
        for each in _against(level, known.present()):
            why = self._incompatible(level, parsed, each)
            if why:
                raise SchemaIncompatible(
                    subject=subject, version=each.version, level=level, why="; ".join(why[:MESSAGES_MAX])
                )

    def _incompatible(self, level: Compatibility, parsed: ParsedSchema, version: StoredVersion) -> list[str]:
        if level == "NONE":
            return []
        other = self.parsed(version.id)
        if other.kind != parsed.kind:
            return [f"/: {other.kind} became {parsed.kind}"]
        try:
            backward = parsed.unreadable(other) if level.startswith(("BACKWARD", "FULL")) else []
            forward = other.unreadable(parsed) if level.startswith(("FORWARD", "FULL")) else []
        except RecursionError:
            return ["/: the schemas are nested too deeply to compare"]
        return [each[:MESSAGE_LENGTH_MAX] for each in (backward + forward)[:MESSAGES_MAX]]

    def _id_for(self, stored: StoredSchema, wanted: int | None) -> int:
        for known_id, known in self.book.schemas.items():
            if known.fingerprint == stored.fingerprint and wanted in (None, known_id):
                return known_id
        if wanted is None:
            return self.book.last_id + 1
        if wanted in self.book.schemas:
            raise InvalidValue(name="id", value=wanted, why="another schema has it")
        if not 1 <= wanted <= ID_MAX:
            raise InvalidValue(name="id", value=wanted, why=f"it is a number from 1 to {ID_MAX}")
        return wanted

    def _doomed(
        self, subject: str, known: Subject, version: int | str | None, *, permanent: bool
    ) -> list[StoredVersion]:
        """The versions that a deletion deletes."""
        if version is None:
            doomed = known.versions if permanent else known.present()
            if not doomed:
                raise SchemaDeleted(subject=subject, version=ALL)
            if permanent and known.present():
                raise SchemaNotDeleted(subject=subject, version=ALL)
            return doomed
        found = self._version(subject, version, deleted=permanent or str(version) not in LATEST)
        if permanent and not found.deleted:
            raise SchemaNotDeleted(subject=subject, version=str(found.version))
        if not permanent and found.deleted:
            raise SchemaDeleted(subject=subject, version=str(found.version))
        return [found]


def version_number(version: int | str) -> int:
    """The number of a version; invalid ones are refused."""
    try:
        number = int(version)
    except ValueError:
        number = 0
    if not 1 <= number < 1 << 31:
        raise InvalidValue(name="version", value=version, why="it is a number from 1 on, or 'latest'")
    return number


def _check_subject(subject: str) -> None:
    if not subject.strip() or len(subject) > SUBJECT_LENGTH_MAX or not subject.isprintable():
        raise InvalidValue(
            name="subject", value=subject, why=f"it has 1 to {SUBJECT_LENGTH_MAX} printable characters"
        )


def _against(level: Compatibility, versions: list[StoredVersion]) -> list[StoredVersion]:
    """The versions that a new one is compared with, the latest first."""
    if level == "NONE":
        return []
    return versions[::-1] if level.endswith("_TRANSITIVE") else versions[-1:]


def _without_unused(book: SchemaBook) -> SchemaBook:
    """The state without schemas that no version uses any more."""
    used = {each.id for subject in book.subjects.values() for each in subject.versions}
    return msgspec.structs.replace(
        book, schemas={each: schema for each, schema in book.schemas.items() if each in used}
    )
