"""The schema registry of a broker: stored in ``schemas.json``, shared by the nodes of a cluster.

    register, find, check    parse and compare in a thread: a schema may be large, and protoc is a process
    delete, alter, reset     change the stored registry
    everything else          is answered from memory

Changes are made one at a time, and so are queries that need a thread.  In a cluster another node may change
the registry at the same moment; then the change is recomputed on the newer state, so two nodes never use an
id twice.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from penstock.broker.registry.registry import SCHEMAS
from penstock.broker.schemas.protoc import compiled
from penstock.broker.state import State
from penstock.broker.steps import Steps, aside
from penstock.broker.storage.checked_json import decode_checked, encode_checked
from penstock.broker.turns import Turn
from penstock.errors import DirectoryUnusable, InvalidValue, OutcomeUnknown, Overloaded, PenstockError
from penstock.model.schemas import Compatibility, NewSchema, SchemaInfo, SchemaSettings, SchemaVerdict
from penstock.schemas.registry import ParsedSchemas, SchemaBook, SchemaRegistry

BOOK_BYTES_MAX: Final = 16 << 20  # It is written as a whole at each change.
ATTEMPTS_MAX: Final = 5  # Conflicting changes of other nodes before a change is given up.

T = TypeVar("T")
Change = Callable[[SchemaRegistry], tuple[SchemaBook, T]]


class Schemas:
    def __init__(self, state: State) -> None:
        self._state = state
        self._changes: deque[Turn] = deque()  # One at a time.
        self._questions: deque[Turn] = deque()
        self._error: DirectoryUnusable | None = None  # The file is damaged.
        self._parsed: ParsedSchemas = {}
        self.registry = self._made(SchemaBook())
        self.generation = 0  # Grows with each change, to invalidate data derived from schemas.

    def open(self) -> None:
        data = self._state.registry.read(SCHEMAS)
        if data is None:
            return
        try:
            self.load(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            why = f"schemas.json is damaged ({error}); restore it from a copy"
            self._error = DirectoryUnusable(directory=self._state.directory, why=why)
            message = f"{why}: until then no schema is known, and none can be registered"
            self._state.problems.report("schemas.json", "file_damaged", message)

    def load(self, data: bytes) -> None:
        """Load the stored registry, which another node may have written."""
        self._replace(decode_checked(data, SchemaBook))

    def _made(self, book: SchemaBook) -> SchemaRegistry:
        return SchemaRegistry(book, compiled, self._parsed)

    def _replace(self, book: SchemaBook) -> None:
        self.registry = self._made(book)
        self.generation += 1

    # Questions.

    def known(self) -> SchemaRegistry:
        """The registry, unless its file is damaged."""
        if self._error is not None:
            raise self._error
        return self.registry

    def all(self, *, deleted: bool) -> list[SchemaInfo]:
        registry = self.known()
        return [
            info
            for subject in registry.subjects(deleted=deleted)
            for info in registry.versions(subject, deleted=deleted)
        ]

    def find(self, subject: str, new: NewSchema, *, deleted: bool) -> Steps[SchemaInfo]:
        return self._ask(partial(self.known().find, subject, new, deleted=deleted))

    def check(
        self, subject: str, new: NewSchema, version: int | str | None, level: Compatibility | None
    ) -> Steps[SchemaVerdict]:
        return self._ask(partial(self.known().check, subject, new, version, level))

    def _ask(self, question: Callable[[], T]) -> Steps[T]:
        """Run a query in a thread, one at a time: it may take seconds, and other work needs the threads."""
        with Turn(self._state, [self._questions]) as turn:
            yield from turn.wait()
            return (yield from in_thread(question))

    # Changes.

    def register(self, subject: str, new: NewSchema) -> Steps[SchemaInfo]:
        return self._change(lambda registry: registry.register(subject, new))

    def delete(self, subject: str, version: int | str | None, *, permanent: bool) -> Steps[list[int]]:
        return self._change(lambda registry: registry.delete(subject, version, permanent=permanent))

    def alter(self, subject: str | None, settings: SchemaSettings, *, force: bool) -> Steps[None]:
        return self._change(lambda registry: (registry.alter(subject, settings, force=force), None))

    def reset(self, subject: str | None, setting: str) -> Steps[SchemaSettings]:
        if setting not in SchemaSettings.__struct_fields__:
            raise InvalidValue(name="setting", value=setting, why="it is compatibility or mode")
        return self._change(lambda registry: registry.reset(subject, setting))

    def _change(self, change: Change[T]) -> Steps[T]:
        """Make a change and store it; an error means that nothing was changed."""
        with Turn(self._state, [self._changes]) as turn:
            yield from turn.wait()
            for attempt in range(ATTEMPTS_MAX):
                self._refresh()
                before = self.known()
                book, result = yield from in_thread(partial(change, before))
                if book is before.book:
                    return result
                data = encode_checked(book)
                if len(data) > BOOK_BYTES_MAX:
                    raise Overloaded(what="bytes in the schema registry", limit=BOOK_BYTES_MAX)
                try:
                    yield from self._state.registry.write(SCHEMAS, data)
                except OutcomeUnknown:  # Perhaps another node was first.  A change may be made twice.
                    if attempt == ATTEMPTS_MAX - 1:
                        raise
                    continue
                self._replace(book)  # Only now that it is stored.
                return result
        raise AssertionError("the last attempt raises")

    def _refresh(self) -> None:
        """In a cluster, load the registry from the metadata if that is newer."""
        if self._error is None and self._state.registry.group_epoch(""):
            data = self._state.registry.read(SCHEMAS)
            if data is not None:
                self.load(data)


def in_thread(function: Callable[[], T]) -> Steps[T]:
    """Run a function in a thread, and return or raise its outcome."""

    def run() -> T | PenstockError:
        try:
            return function()
        except PenstockError as error:
            return error

    result = yield from aside(run)
    if isinstance(result, PenstockError):
        raise result
    return result
