"""Messages that are not due: their entries in the schedule of the partition, and its alarm."""

from penstock.broker.state import Partition, State, Topic
from penstock.broker.storage.recovery import open_schedule
from penstock.errors import QueueFull
from penstock.model.message import Receipt
from penstock.model.placing import Placed
from penstock.schedule.schedule import Schedule


def accept_delayed(state: State, topic: Topic, item: Placed, now_ms: int) -> Receipt:
    """Put a message that is not due into the schedule of its partition."""
    partition = topic.partitions[item.partition]
    schedule = open_schedule(state, partition)
    check_schedule_room(partition, schedule)
    number = schedule.add(item.due_ms, item.key, item.value, item.headers, item.attributes, now_ms)
    state.commit.mark(schedule.log)
    set_schedule_alarm(state, partition)
    if item.dedup_id is not None:
        topic.dedup.add(item.dedup_id, partition.number, number, schedule.log.last_timestamp, True)
    return Receipt(
        topic.name, partition.number, None, now_ms, schedule_id(topic.name, partition.number, number)
    )


def schedule_id(topic: str, partition: int, number: int) -> str:
    """The name of a schedule entry: like a message id, with an ``s`` before the number."""
    return f"{topic}:{partition}:s{number}"


def check_schedule_room(partition: Partition, schedule: Schedule) -> None:
    """Refuse an entry more than the topic allows."""
    limit = partition.topic.settings.scheduled_max
    if schedule.count >= limit:
        raise QueueFull(what=f"the schedule of {partition.topic.name!r}", limit=limit)


def set_schedule_alarm(state: State, partition: Partition) -> None:
    """Look at the partition's schedule when its next entry is due, and every now and then before.

    Due times are wall time, and the wall clock may jump; the look in between
    is what notices.
    """
    assert partition.schedule is not None
    due = partition.schedule.next_due_ms()
    if due >= 0:
        wait_ms = min(max(due - state.clock.wall_ms(), 0), state.config.clock_check_ms)
        state.alarms.set(partition, state.clock.steady_ms() + wait_ms)
