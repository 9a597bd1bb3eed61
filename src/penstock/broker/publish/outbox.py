"""Writes decisions to a partition's journal together with the messages that follow from them.

A decision counts when it is in the journal; its messages are published afterwards
(``Publishing.drain_outbox``), after a crash again, and are recognised by their numbers.
"""

from penstock.broker.state import Partition, State, Topic
from penstock.broker.storage.recovery import open_journal
from penstock.delivery import events
from penstock.model.placing import Placed
from penstock.wire.records import BatchBuilder

NO_GROUP = -1  # In place of a group's number: the messages follow from no settlement.


def decide(
    state: State, partition: Partition, group: int, settled: list[events.AnyEvent],
    items: list[tuple[Topic, Placed]], start: int, end: int, note: str,
) -> None:  # fmt: skip
    """Write settlements and messages as one decision; the caller has a job drain the outbox."""
    outputs = _outputs(state, partition, items)
    decisions = [*settled, events.Outbox(group, outputs, note, start, end)] if outputs else settled
    journal = open_journal(state, partition)
    journal.commit(decisions, state.clock.steady_ms())
    state.commit.mark(journal.log)
    partition.outbox.extend(outputs)
    for output in outputs:
        target = (output.topic, output.partition)
        partition.outbox_targets.add(target)
        partition.outbox_sequences[target] = partition.outbox_sequences.get(target, 0) + 1


def _outputs(state: State, partition: Partition, items: list[tuple[Topic, Placed]]) -> list[events.Output]:
    """One batch for each message, numbered in line for its target."""
    if items and partition.producer_id < 0:
        partition.producer_id = state.registry.new_producer_id()
    sequences = dict(partition.outbox_sequences)
    wall_ms = state.clock.wall_ms()
    outputs = []
    for topic, item in items:
        target = (topic.name, item.partition)
        sequence = sequences.get(target, 0)
        sequences[target] = sequence + 1
        builder = BatchBuilder()
        builder.add(item.key, item.value, item.headers)
        batch = builder.build(wall_ms, wall_ms, item.attributes, partition.producer_id, 0, sequence)
        outputs.append(events.Output(*target, bytes(batch)))
    return outputs
