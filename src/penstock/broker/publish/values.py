"""Validates the values of typed topics (``validation`` is not "off") before they are written.

    check_looks       batches that clients encoded, after their records are validated (``incoming.py``)
    find_invalid      messages that are encoded here; the caller decides what becomes of invalid ones
    check_all         messages that are published together or not at all: one invalid value refuses them
    check_staged      the same for a staged batch
    read              values as JSON, for people

With ``reject`` a batch that has an invalid value is refused (``SchemaMismatch``).  With ``dead-letter`` the
invalid records are taken out of it: what is left is written with the offsets and sequence numbers it would
have had, as compaction leaves batches, and the others go to the topic's dead letters (``invalid.py``).  What
belongs to a transaction, a staged publish or an ack is refused in both modes: it happens as a whole or not at
all.

Small batches are validated at once, and large ones, or those whose schema takes long or is not parsed yet,
in a thread: one at a time, since each may unpack to a lot.  What is not validated after ``CPU_S_MAX`` is
invalid, so that nobody keeps the others waiting.  The libraries are imported when they are first needed.

In a cluster a node may hear of a new schema later than the client that registered it.  So an unknown schema
is waited for, up to ``NEWS_MS`` in all for the batches of one request: others wait behind them.

Cost: a topic that is not typed pays one comparison for each publish.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import thread_time
from typing import Final, NamedTuple

from penstock.broker.publish.incoming import Invalid, Look
from penstock.broker.schemas.schemas import Schemas, in_thread
from penstock.broker.state import State, Topic
from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.broker.turns import Turn
from penstock.errors import PenstockError, SchemaMismatch
from penstock.model.placing import Placed
from penstock.model.schemas import ReadValue
from penstock.schemas.values import ValueChecker, ValueMismatch, WouldBlock
from penstock.wire.compression import unpack
from penstock.wire.records import HEADER_BYTES, TRANSACTIONAL, Header, Record, decode_batch
from penstock.wire.rewriting import rewrite_batch

# What is validated on an event loop: about a millisecond.  A value counts as so many bytes at least.
INLINE_BYTES: Final = 128 << 10
VALUE_BYTES: Final = 512
# Values that are first validated together, and so all unpacked at once.
TOGETHER_VALUES: Final = 256
TOGETHER_BYTES: Final = 256 << 10
# For the values of one batch; a batch of ordinary values takes milliseconds.
CPU_S_MAX: Final = 2.0
_TOO_LONG: Final = (
    f"validating the values before it took more than {CPU_S_MAX:.0f} s; publish fewer at a time"
)
REASONS_MAX: Final = 100  # Invalid records of one batch that a refusal lists.
NEWS_MS: Final = 500
LOOK_MS: Final = 20  # Between two looks for a schema.


class Examined(NamedTuple):
    """What was found; of a batch also the invalid records, and the batch without these."""

    findings: list[ValueMismatch]
    invalid: list[Record]
    kept: bytes


Examine = Callable[[ValueChecker, bool], Examined]  # With True it may take long.


class _News:
    """Somewhere to wait where nothing happens: the looks are by the clock."""

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.until_ms = -1  # How long it is waited; -1: that has not begun.


class Values:
    """The validation of values for all typed topics."""

    def __init__(self, state: State, schemas: Schemas) -> None:
        self._state = state
        self._schemas = schemas
        self._checkers: dict[str, ValueChecker] = {}  # By topic, of one generation of the registry.
        self._generation = -1

    def checker(self, topic: str) -> ValueChecker:
        """The schemas of a topic as they are now."""
        if self._generation != self._schemas.generation:
            self._checkers.clear()
            self._generation = self._schemas.generation
        found = self._checkers.get(topic)
        if found is None:
            found = self._checkers[topic] = ValueChecker(self._schemas.known(), topic)
        return found

    # Batches that were encoded by clients.

    def check_looks(self, topic: Topic, looks: list[Look]) -> Steps[None]:
        """Refuse batches with invalid values, or take these out of them."""
        news = _News()
        for look in looks:
            if look.refusal is None:
                try:
                    yield from self._check_look(topic, look, news)
                except PenstockError as refusal:
                    look.refusal = refusal

    def _check_look(self, topic: Topic, look: Look, news: _News) -> Steps[None]:
        header = look.header
        assert header is not None, "it was looked at"
        takes_out = topic.settings.validation == "dead-letter" and not header.attributes & TRANSACTIONAL
        examine = partial(_examine_batch, look.data, header, takes_out)
        found = yield from self._examined(topic, _weight(look.data, header), examine, news)
        if found.findings and not takes_out:
            raise mismatch(topic, found.findings)
        if found.findings:
            look.kept = found.kept
            look.invalid = [Invalid(*pair) for pair in zip(found.invalid, found.findings, strict=True)]

    def check_staged(self, topic: Topic, data: bytes, header: Header) -> Steps[None]:
        """Refuse a staged batch with invalid values."""
        found = yield from self._examined(
            topic, _weight(data, header), partial(_examine_batch, data, header, False)
        )
        if found.findings:
            raise mismatch(topic, found.findings)

    # Messages that are encoded here.

    def find_invalid(self, topic: Topic, items: list[Placed]) -> Steps[list[ValueMismatch]]:
        """The messages whose values do not match; with ``reject`` the first one is an error."""
        values = [item.value for item in items]
        weight = sum(max(len(value or b""), VALUE_BYTES) for value in values)
        found = yield from self._examined(topic, weight, partial(_examine_values, values))
        if found.findings and topic.settings.validation == "reject":
            raise mismatch(topic, found.findings)
        return found.findings

    def check_all(self, topic: Topic, items: list[Placed]) -> Steps[None]:
        """Refuse messages that are published as a whole if one of them does not match."""
        found = yield from self.find_invalid(topic, items)
        if found:
            raise mismatch(topic, found)

    def check_now(self, topic: Topic, item: Placed) -> None:
        """The same for one message, by an operation that cannot wait."""
        found = _examine_values([item.value], self.checker(topic.name), True).findings
        topic.invalid += len(found)
        if found:
            raise mismatch(topic, found)

    # Values that are shown.

    def read(self, topic: str, values: list[bytes]) -> Steps[list[ReadValue]]:
        """The values as JSON, by the schemas of the topic."""
        weight = sum(max(len(value), VALUE_BYTES) for value in values)
        checker = self.checker(topic)
        if not checker.has_versions:
            return [ReadValue(version=None)] * len(values)
        if weight <= INLINE_BYTES:
            with suppress(WouldBlock):
                return [checker.read(value, False) for value in values]
        with Turn(self._state, [self._state.unpacking]) as turn:
            yield from turn.wait()
            return (yield from in_thread(lambda: [checker.read(value, True) for value in values]))

    # Here or in a thread.

    def _examined(
        self, topic: Topic, weight: int, examine: Examine, news: _News | None = None
    ) -> Steps[Examined]:
        generation = self._schemas.generation
        found = yield from self._examined_once(topic, weight, examine)
        if self._state.lease.limited and any(each.is_unknown for each in found.findings):
            yield from self._hear_of_more(generation, _News() if news is None else news)
            found = yield from self._examined_once(topic, weight, examine)
        topic.invalid += len(found.findings)
        return found

    def _examined_once(self, topic: Topic, weight: int, examine: Examine) -> Steps[Examined]:
        if weight <= INLINE_BYTES:
            with suppress(WouldBlock):
                return examine(self.checker(topic.name), False)
        with Turn(self._state, [self._state.unpacking]) as turn:
            yield from turn.wait()
            return (yield from in_thread(partial(examine, self.checker(topic.name), True)))

    def _hear_of_more(self, generation: int, news: _News) -> Steps[None]:
        """Until this node knows more schemas, or has waited long enough."""
        if news.until_ms < 0:
            news.until_ms = self._state.clock.steady_ms() + NEWS_MS
        while self._schemas.generation == generation and self._state.clock.steady_ms() < news.until_ms:
            yield Arrival(news, self._state.clock.steady_ms() + LOOK_MS)


def mismatch(topic: Topic, findings: list[ValueMismatch]) -> SchemaMismatch:
    """The error for messages whose values do not match."""
    first = findings[0]
    error = SchemaMismatch(
        topic=topic.name, index=first.record, schema=first.schema, where=first.where, why=first.why
    )
    error.reasons |= {each.record: each.text() for each in findings[:REASONS_MAX]}
    return error


def _weight(data: bytes, header: Header) -> int:
    """How much there is to validate; more than ``INLINE_BYTES`` if a batch unpacks to more.

    Its own size says little: a kilobyte may be megabytes of values.
    """
    weight = max(header.size, header.count * VALUE_BYTES)
    if header.codec and weight <= INLINE_BYTES:
        body, is_whole = unpack(header.codec, memoryview(data)[HEADER_BYTES:], INLINE_BYTES)
        weight = max(weight, len(body)) if is_whole else INLINE_BYTES + 1
    return weight


def _examine_values(values: Sequence[bytes | None], checker: ValueChecker, may_block: bool) -> Examined:
    findings: list[ValueMismatch] = []
    began = thread_time()
    for start in range(0, len(values), TOGETHER_VALUES):
        part = [
            (index, value)
            for index, value in enumerate(values[start : start + TOGETHER_VALUES], start)
            if value is not None
        ]
        if _all_match([value for _, value in part], checker, may_block):
            continue
        for index, value in part:
            found = (
                checker.check(index, value, may_block)
                if thread_time() - began <= CPU_S_MAX
                else ValueMismatch(index, f"the subject {checker.subject!r}", "/", _TOO_LONG)
            )
            if found is not None:
                findings.append(found)
    return Examined(findings, [], b"")


def _all_match(values: list[bytes], checker: ValueChecker, may_block: bool) -> bool:
    """Whether values match, if that is known after they are validated together."""
    if len(values) < 2 or sum(map(len, values)) > TOGETHER_BYTES:
        return False
    return checker.all_match(values, may_block)


def _examine_batch(
    data: bytes, header: Header, takes_out: bool, checker: ValueChecker, may_block: bool
) -> Examined:
    records = decode_batch(data)
    findings = _examine_values([record.value for record in records], checker, may_block).findings
    if not findings or not takes_out:
        return Examined(findings, [], b"")
    indexes = {each.record for each in findings}
    kept = [record for index, record in enumerate(records) if index not in indexes]
    return Examined(findings, [records[each.record] for each in findings], bytes(rewrite_batch(header, kept)))
