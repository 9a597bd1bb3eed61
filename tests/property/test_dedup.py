"""DedupWindow and ProducerTable against plain lists of everything that was ever added."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from penstock.delivery.dedup import BATCHES_KEPT, DUPLICATE, NEW, DedupWindow, ProducerTable
from penstock.errors import ProducerFenced, SequenceOutOfOrder, SequenceReused
from penstock.wire.records import SEQUENCES

WINDOW_MS = 50
IDS = st.sampled_from([f"id-{number}" for number in range(12)])
Place = tuple[int, int, bool]


@given(
    steps=st.lists(
        st.tuples(IDS, st.integers(0, 20), st.integers(0, 5), st.integers(0, 2**62), st.booleans()),
        max_size=60,
    ),
    ids_max=st.integers(1, 15),
)
def test_an_id_is_seen_for_its_window_and_while_there_is_room(
    steps: list[tuple[str, int, int, int, bool]], ids_max: int
) -> None:
    """The model forgets by age at once; the window may forget the oldest early, and counts that."""
    window = DedupWindow(WINDOW_MS, ids_max)
    model: dict[str, tuple[int, Place]] = {}
    early = 0
    now_ms = 1_000
    for dedup_id, step_ms, partition, offset, scheduled in steps:
        now_ms += step_ms
        model = {known: entry for known, entry in model.items() if entry[0] + WINDOW_MS > now_ms}
        expected = model.get(dedup_id)
        assert window.seen(dedup_id, now_ms) == (None if expected is None else expected[1])
        window.forget(now_ms)
        assert len(window) == len(model)
        if expected is None:
            if len(model) == ids_max:
                del model[next(iter(model))]
                early += 1
            window.add(dedup_id, partition, offset, now_ms, scheduled)
            model[dedup_id] = (now_ms, (partition, offset, scheduled))
        assert window.forgotten_early == early


@given(adds=st.lists(st.tuples(IDS, st.integers(0, 120)), max_size=40), now_ms=st.integers(0, 200))
def test_added_in_any_order_of_times_the_last_word_counts(adds: list[tuple[str, int]], now_ms: int) -> None:
    """As when a topic's partitions are read one after another: exact to see, if not to forget."""
    window = DedupWindow(WINDOW_MS, 1_000)
    last: dict[str, tuple[int, int]] = {}
    newest_ms = 0
    for offset, (dedup_id, timestamp_ms) in enumerate(adds):
        window.add(dedup_id, 0, offset, timestamp_ms)
        last[dedup_id] = (timestamp_ms, offset)
        newest_ms = max(newest_ms, timestamp_ms)

    now_ms = max(now_ms, newest_ms)
    for dedup_id, (timestamp_ms, offset) in last.items():
        expected = (0, offset, False) if timestamp_ms + WINDOW_MS > now_ms else None
        assert window.seen(dedup_id, now_ms) == expected


class OneProducer(RuleBasedStateMachine):
    """The log is a list of accepted batches; sequences here never wrap, the table's do."""

    @initialize(first=st.sampled_from([0, 5, SEQUENCES - 7]))
    def begin(self, first: int) -> None:
        self.table = ProducerTable()
        self.epoch = 0
        self.next = first  # Counts on; modulo SEQUENCES it is what the producer sends.
        self.batches: list[tuple[int, int, int]] = []  # Of this epoch: sequence, count, offset.
        self.offset = 0

    def check(self, sequence: int, count: int) -> tuple[int, int] | str:
        try:
            return self.table.check(9, self.epoch, sequence % SEQUENCES, count)
        except SequenceOutOfOrder:
            return "out of order"
        except SequenceReused:
            return "reused"

    def write(self, count: int) -> None:
        self.table.record(9, self.epoch, self.next % SEQUENCES, count, self.offset, 1_000)
        self.batches.append((self.next, count, self.offset))
        self.next += count
        self.offset += count

    @rule(count=st.integers(1, 4))
    def send_the_next(self, count: int) -> None:
        assert self.check(self.next, count) == (NEW, -1)
        assert self.table.check_internal(9, self.next % SEQUENCES, count) == NEW
        self.write(count)

    @rule(back=st.integers(0, 9))
    def send_again(self, back: int) -> None:
        if back < len(self.batches):
            sequence, count, offset = self.batches[-1 - back]
            assert self.check(sequence, count) == ((DUPLICATE, offset) if back < BATCHES_KEPT else "reused")
            assert self.table.check_internal(9, sequence % SEQUENCES, count) == DUPLICATE

    @rule(gap=st.integers(1, 5), count=st.integers(1, 4))
    def lose_some(self, gap: int, count: int) -> None:
        if self.batches:
            assert self.check(self.next + gap, count) == "out of order"
            assert self.table.check_internal(9, (self.next + gap) % SEQUENCES, count) == NEW

    @rule(count=st.integers(1, 4))
    def start_a_new_epoch(self, count: int) -> None:
        if not self.batches:
            return
        old = self.epoch
        self.epoch += 1
        assert self.check(5, 1) == "out of order"
        assert self.check(0, count) == (NEW, -1)
        self.next = 0
        self.batches.clear()
        self.write(count)
        with pytest.raises(ProducerFenced):
            self.table.check(9, old, 0, 1)

    @rule()
    def restart(self) -> None:
        restored = ProducerTable()
        restored.restore(self.table.snapshot())
        assert restored.snapshot() == self.table.snapshot()
        self.table = restored


TestOneProducer = OneProducer.TestCase
