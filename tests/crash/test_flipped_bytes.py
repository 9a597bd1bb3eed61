"""One byte of a data directory has changed: at every offset of every kind of file.

The directory is small and has something of everything.  After a byte was changed, the broker must open it,
and then be used as programs use it.  The promise:

    the broker opens
    every message outside of the damaged batch is delivered: to queue and stream groups, old and new, and to
    readers of all kinds; and it is the message that was published at that offset
    what a group has acked does not come again, unless its journal is what was damaged
    a dedup id of an intact message is still known
    groups can be described, messages traced, new ones published
    whatever is missing is reported: in the problems of the broker, and once in its log

A topic whose settings cannot be read is offline, and says so; the others are not affected.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest
from tests.staged import batch as staged_batch
from tests.staged import stage
from tests.transactional import Producer, run

from penstock.broker.checking import examine_directory, repair_directory
from penstock.config.broker import BrokerConfig
from penstock.errors import CorruptionError, DirectoryUnusable, TopicDamaged
from penstock.groups.configs import GroupConfig
from penstock.model.access import Grant
from penstock.model.message import Message
from penstock.model.schemas import NewSchema
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.records import CONTROL, HEADER_BYTES, Header, check_batch

CONFIG = BrokerConfig(clock_check_ms=24 * 3600 * 1000)
TOPIC = "orders"
SUBJECT = "orders-value"
SAMPLES = 10  # Places of each file that are tried by default; `make soak` tries all of them.
REPAIRS = 2  # Places of each file that are repaired.
FLIPS = (0x01, 0x80)
ROOM_NEAR = 256  # Zeroed bytes behind what was written of which each is changed: several batch headers.
ROOM_STEP = 61  # Of the zeroed bytes further on, one in so many: they differ in nothing but their distance.
DATA_LOG = re.compile(r"data/topics/([^/]+)/0/\d{20}\.log")


@dataclass
class Original:
    """A directory with some of everything, and what is in it."""

    contents: dict[str, bytes] = field(default_factory=dict)
    now_ms: int = 0
    values: dict[tuple[str, int], bytes] = field(default_factory=dict)  # By topic and offset.
    dedup: dict[str, int] = field(default_factory=dict)  # Offset by id.
    acked: set[int] = field(default_factory=set)
    waiting: set[bytes | None] = field(default_factory=set)

    def copy(self, path: str, data: bytes) -> tuple[CrashDisk, ManualClock]:
        """The directory with one file changed."""
        disk = CrashDisk()
        for name, content in (self.contents | {path: data}).items():
            file = disk.open(name, create=True)
            file.append((content,))
            file.sync()
            disk.sync_directory(name.rpartition("/")[0])
        return disk, ManualClock(self.now_ms)


def fill(broker: TestBroker, original: Original) -> None:
    broker.create_topic(TOPIC, segment_bytes=4096, retention=None)
    broker.create_topic("other", retention=None)
    for value in (b"deleted", b"of another topic"):
        broker.publish("other", value)
    for number in range(18):
        value = b"message %d " % number * 25
        priority = "high" if number % 5 == 0 else 0
        receipt = broker.publish(
            TOPIC, value, key=b"k%d" % (number % 3), priority=priority, dedup_id=f"id-{number}"
        )
        assert receipt.offset is not None
        original.dedup[f"id-{number}"] = receipt.offset
    broker.publish_batch(TOPIC, [Message(b"in a batch %d" % number) for number in range(4)])
    for hours in (1, 100):
        broker.publish(TOPIC, b"in %d hours" % hours, delay=f"{hours}h")
    producer = Producer(broker)
    producer.write(TOPIC, b"committed 1", b"committed 2")
    producer.commit()
    producer.write(TOPIC, b"aborted")
    producer.abort()
    broker.publish_staged(TOPIC, "app", 1, stage(broker, "t", (0, staged_batch([b"staged"])), topic=TOPIC))
    consume(broker, original)
    broker.create_key("billing", [Grant(role="reader")])
    run(broker, "alter_group_config", "kafka-group", GroupConfig(share_lock_ms=5000))
    run(broker, "delete_records", "other", 0, 1)
    broker.register_schema(
        SUBJECT, NewSchema(schema='{"type": "enum", "name": "Order", "symbols": ["OPEN"]}')
    )


def consume(broker: TestBroker, original: Original) -> None:
    consumer = broker.consumer(TOPIC, group="work", visibility_timeout="1h", backoff=["1h"])
    received = consumer.receive(9)
    consumer.ack(received[:5])
    received[5].reject("bad")
    received[6].nack(error="no")
    [partition] = broker._core.state.topics[TOPIC].partitions
    assert broker._core.maintenance.snapshot(partition)
    received[7].ack()
    original.acked = {received[at].offset for at in (0, 1, 2, 3, 4, 5, 7)}
    stream = broker.consumer(TOPIC, group="stream", kind="stream")
    assert stream.receive(3)
    stream.commit()
    stream.close()


def make_original(*, closed: bool) -> Original:
    disk, clock, original = CrashDisk(), ManualClock(), Original()
    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
    fill(broker, original)
    broker.advance("2s")
    original.waiting = {entry.value for entry in broker.scheduled(TOPIC)}
    for topic in broker.topics():
        original.values |= {(topic, m.offset): m.value or b"" for m in broker.read(topic, limit=1000)}
    if closed:
        broker.close()
    disk.kill()
    original.contents = {path: bytes(node.content) for path, node in disk._names.items()}
    original.now_ms = clock.steady_ms()
    return original


ORIGINALS = {"closed": make_original(closed=True), "killed": make_original(closed=False)}
KINDS = (
    "penstock.json", "access.json", "groups.json", "LOCK", "schemas.json", "transactions/N.log",
    "orders/topic.json", "orders/intents/N.log", "orders/0/N.log", "orders/0/N.index", "orders/0/N.lanes",
    "orders/0/digest",
    "orders/0/journal/N.log", "orders/0/journal/snapshot", "orders/0/schedule/N.log", "other/0/start",
)  # fmt: skip


def kind_of(path: str) -> str:
    return re.sub(r"\d{20}", "N", path)


def cases() -> list[object]:
    return [
        pytest.param(how, path, id=f"{how} {path.removeprefix('data/')}")
        for how, original in ORIGINALS.items()
        for path in sorted(original.contents)
        if original.contents[path]
    ]


def places(size: int, samples: int) -> Iterator[int]:
    """Offsets of a file, the first and the last among them."""
    step = max(size // samples, 1)
    yield from range(0, size, step)
    yield size - 1


def damaged_offsets(original: Original, path: str, place: int) -> tuple[str, set[int]]:
    """The topic and the offsets of the batch that a byte of a data log belongs to."""
    match = DATA_LOG.fullmatch(path)
    for at, header in batches(path, original.contents[path]):
        if match and at <= place < at + header.size:
            return match[1], set(range(header.base_offset, header.next_offset))
    return (match[1] if match else ""), set()


def batches(path: str, data: bytes) -> Iterator[tuple[int, Header]]:
    """Where each batch of a data log begins; nothing for other files."""
    at = 0
    while DATA_LOG.fullmatch(path) and at < len(data) and any(data[at:]):
        header = check_batch(data, at)
        yield at, header
        at += header.size


def test_every_kind_of_file_is_there() -> None:
    kinds = " ".join(map(kind_of, ORIGINALS["closed"].contents))
    for kind in KINDS[:3] + KINDS[4:]:
        assert kind in kinds


@pytest.mark.parametrize("how", ORIGINALS)
def test_undamaged_everything_is_as_it_was(how: str) -> None:
    original = ORIGINALS[how]
    use(original, "data/penstock.json", original.contents["data/penstock.json"], "", set())


@pytest.mark.parametrize(("how", "path"), cases())
def test_a_changed_byte_hides_its_own_batch_and_nothing_else(how: str, path: str) -> None:
    flip_each(how, path, SAMPLES, FLIPS[:1])


@pytest.mark.parametrize("how", ORIGINALS)
def test_every_byte_of_a_batch_header_may_change(how: str) -> None:
    """Offset, length, format, checksum, count: with these, readers find their way."""
    path = f"data/topics/{TOPIC}/0/{0:020d}.log"
    begin = check_batch(ORIGINALS[how].contents[path]).size
    flip_at(how, path, range(begin, begin + HEADER_BYTES), FLIPS[:1])


@pytest.mark.parametrize("how", ORIGINALS)
def test_a_damaged_commit_marker_hides_no_message(how: str) -> None:
    """Nor does the abort of the same producer that follows it."""
    for path, data in ORIGINALS[how].contents.items():
        for begin, header in batches(path, data):
            if header.attributes & CONTROL:
                flip_at(how, path, range(begin, begin + header.size, 9), FLIPS[:1])


@pytest.mark.parametrize(("how", "path"), cases())
def test_a_repaired_directory_is_whole_and_has_everything_that_was_intact(how: str, path: str) -> None:
    original = ORIGINALS[how]
    data = original.contents[path]
    for place in places(len(data), REPAIRS):
        changed = bytearray(data)
        changed[place] ^= 0x10
        topic, hidden = damaged_offsets(original, path, place)
        try:
            repair_and_use(original, path, bytes(changed), topic, hidden)
        except BaseException as error:
            error.add_note(f"byte {place} of {path} ({how})")
            raise


def repair_and_use(original: Original, path: str, data: bytes, topic: str, hidden: set[int]) -> None:
    disk, clock = original.copy(path, data)
    damaged = [finding for finding in examine_directory(disk, "data") if not finding.note]
    assert disk.read_file(path) == data  # It was only read.

    done = list(repair_directory(disk, "data", clock))

    assert [finding for finding in examine_directory(disk, "data") if not finding.note] == []
    assert done or all(each.derived or each.path.endswith("penstock.json") for each in damaged)
    with TestBroker.open("data", config=CONFIG, files=disk, clock=clock) as broker:
        assert not broker.stats().problems
        check(broker, original, path, topic, hidden)


@pytest.mark.soak  # 35,000 changed bytes: 14 minutes of processor time, interpreted.
@pytest.mark.parametrize(("how", "path"), cases())
def test_every_byte_may_change(how: str, path: str) -> None:
    offsets = list(distinct_places(ORIGINALS[how].contents[path]))
    for first, flip in enumerate(FLIPS):  # Each changes every other byte.
        flip_at(how, path, offsets[first :: len(FLIPS)], (flip,))


def distinct_places(data: bytes) -> Iterator[int]:
    """Every offset of a file; of the zeroed room that a log has ahead, its beginning, its end and samples."""
    written = len(data.rstrip(b"\0"))
    near = min(written + ROOM_NEAR, len(data))
    yield from range(near)
    yield from range(near, len(data), ROOM_STEP)
    if near < len(data):
        yield len(data) - 1


def test_a_soak_changes_every_byte_that_was_written_and_some_of_the_room_ahead() -> None:
    assert list(distinct_places(b"abc")) == [0, 1, 2]
    assert list(distinct_places(b"a" + bytes(ROOM_NEAR))) == list(range(ROOM_NEAR + 1))

    long = list(distinct_places(b"a" + bytes(16384)))

    assert long[: ROOM_NEAR + 1] == list(range(ROOM_NEAR + 1))
    assert len(long) < ROOM_NEAR + 16384 // ROOM_STEP + 3
    assert long[-1] == 16384


def flip_each(how: str, path: str, samples: int, flips: tuple[int, ...]) -> None:
    flip_at(how, path, places(len(ORIGINALS[how].contents[path]), samples), flips)


def flip_at(how: str, path: str, where: Iterable[int], flips: tuple[int, ...]) -> None:
    original = ORIGINALS[how]
    data = original.contents[path]
    for place in where:
        for flip in flips:
            changed = bytearray(data)
            changed[place] ^= flip
            topic, hidden = damaged_offsets(original, path, place)
            try:
                use(original, path, bytes(changed), topic, hidden)
            except BaseException as error:
                error.add_note(f"byte {place} of {path} ({how}), flipped by {flip:#x}")
                raise


class Lines(logging.Handler):
    """The lines that a broker writes to its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts[record.getMessage()] += 1


def use(original: Original, path: str, data: bytes, topic: str, hidden: set[int]) -> None:
    """Open the directory with that file as it is now, use it, and compare."""
    disk, clock = original.copy(path, data)
    logger, lines = logging.getLogger("penstock"), Lines()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(lines)
    try:
        with TestBroker.open("data", config=CONFIG, files=disk, clock=clock) as broker:
            missing = check(broker, original, path, topic, hidden)
            problems = broker.stats().problems
            assert problems or not missing, missing
            for problem in problems:
                assert sum(problem.message in text for text in lines.texts.elements()) == 1, lines.texts
    finally:
        logger.removeHandler(lines)
        logger.propagate = propagate


def check(broker: TestBroker, original: Original, path: str, topic: str, hidden: set[int]) -> list[str]:
    """Assert what must hold; what is missing, of that which may be."""
    if path.endswith(f"{TOPIC}/topic.json") and TOPIC not in broker.topics():
        with pytest.raises(TopicDamaged):
            broker.read(TOPIC)
        assert [message.value for message in broker.read("__staging")]
        broker.publish("other", b"more")
        return ["the topic"]
    missing: list[str] = []
    for name in {name for name, _ in original.values} & set(broker.topics()):
        lost = hidden if name == topic else set()
        expected = {at: value for (of, at), value in original.values.items() if of == name and at not in lost}
        found = check_readers(broker, name, expected)
        missing += [f"{name}:{at}" for at in lost - found if (name, at) in original.values]
    if TOPIC in broker.topics():
        intact = {
            at: value
            for (of, at), value in original.values.items()
            if of == TOPIC and (of != topic or at not in hidden)
        }
        missing += check_dedup(broker, original, intact)
        missing += check_groups(broker, original, path, intact)
        check_rest(broker, original, path, missing)
    return missing


def check_readers(broker: TestBroker, topic: str, expected: dict[int, bytes]) -> set[int]:
    """Everybody who reads gets what is intact, and the same."""
    found = {message.offset: message.value for message in broker.read(topic, limit=1000)}
    for offset, value in expected.items():
        assert found[offset] == value
    stream = broker.consumer(topic, group="fresh-stream", kind="stream", start="earliest")
    received: list[int] = []
    while messages := stream.receive(4):
        received += [message.offset for message in messages]
    assert received == sorted(found)
    position, fetched = 0, b""
    log = broker._core.state.topics[topic].partitions[0].log
    position = log.start
    while position < log.high:
        data, position = log.fetch(position, 700)
        fetched += data
    offsets: set[int] = set()
    while fetched:
        header = check_batch(fetched)
        offsets |= set(range(header.base_offset, header.next_offset))
        fetched = fetched[header.size :]
    assert offsets >= expected.keys()
    broker.describe_group(topic, "fresh-stream")
    broker.trace(topic, partition=0, offset=min(expected)) if expected else None
    log.last(5)
    return set(found)


def check_groups(broker: TestBroker, original: Original, path: str, intact: dict[int, bytes]) -> list[str]:
    in_journal = "/orders/0/journal/" in path
    missing = [] if "work" in broker.groups(TOPIC) else ["the group"]
    assert in_journal or not missing
    again = set()
    for group in ("work", "fresh"):
        consumer = broker.consumer(TOPIC, group=group, max_attempts=1000, visibility_timeout="12h")
        delivered = []
        for _ in range(3):
            while messages := consumer.receive(7):
                delivered += messages
            broker.advance("1h")
        for message in delivered:
            if message.offset in intact:
                assert message.value == intact[message.offset]
        offsets = {message.offset for message in delivered}
        if group == "work" and not missing:
            assert offsets >= intact.keys() - original.acked
            again = offsets & original.acked
            assert in_journal or not again
        if group == "fresh":
            assert offsets >= intact.keys()
        consumer.ack(delivered[:1])
        broker.describe_group(TOPIC, group)
        broker.delivery_states(TOPIC, group, 0, 0, 100)
        consumer.close()
    return missing + [f"{offset} came again" for offset in again]


def check_dedup(broker: TestBroker, original: Original, intact: dict[int, bytes]) -> list[str]:
    """An id whose message is intact is not let through a second time."""
    forgotten: list[str] = []
    for dedup_id, offset in original.dedup.items():
        receipt = broker.publish(TOPIC, b"again", dedup_id=dedup_id)
        if offset in intact:
            assert receipt.offset == offset, f"{dedup_id} was published again"
        elif receipt.offset != offset:
            forgotten.append(dedup_id)
    return forgotten


def check_rest(broker: TestBroker, original: Original, path: str, missing: list[str]) -> None:
    waiting = {entry.value for entry in broker.scheduled(TOPIC)}
    in_schedule = "/schedule/" in path
    assert waiting <= original.waiting
    if waiting != original.waiting - {b"in 1 hours"}:
        assert in_schedule
        missing.append("something that is not due")
    broker.dead_letters(TOPIC)
    check_schemas(broker, path, missing)
    if "other" in broker.topics():
        broker.publish("other", b"more")
    else:
        assert path.endswith("other/topic.json")
        missing.append("the other topic")
    broker.publish(TOPIC, b"new", delay="1h")
    try:
        known = broker.published_version(TOPIC, "app") == 1
        assert known or "/intents/" in path  # It was repaired, and the damaged record is left out.
    except TopicDamaged:
        assert "/intents/" in path
        missing.append("the intents")
    try:
        Producer(broker, "another").write(TOPIC, b"in a transaction")
    except CorruptionError:
        assert "/transactions/" in path
        missing.append("the ledger")
    if not broker.keys():
        assert path.endswith("access.json")
        missing.append("the keys")


@pytest.mark.parametrize("path", ["transactions", f"topics/{TOPIC}/intents"])
def test_decisions_that_are_missing_are_missed_at_every_start_until_a_repair(path: str) -> None:
    """They must not be taken the other way, just because somebody starts the broker once more."""
    original = ORIGINALS["closed"]
    path = f"data/{path}/{0:020d}.log"
    disk, clock = original.copy(path, original.contents[path][:-1])

    for _ in range(2):
        with TestBroker.open("data", config=CONFIG, files=disk, clock=clock) as broker:
            [problem] = broker.stats().problems
            assert (problem.kind, problem.path) == ("file_damaged", path)
            assert "when it was closed" in problem.message

    assert list(repair_directory(disk, "data", clock))
    with TestBroker.open("data", config=CONFIG, files=disk, clock=clock) as broker:
        assert broker.stats().problems == []


def check_schemas(broker: TestBroker, path: str, missing: list[str]) -> None:
    """A schema is the one that was registered, or none is answered at all."""
    try:
        [schema] = broker.schemas()
    except (DirectoryUnusable, ValueError):  # Refused, or set aside by a repair.
        assert path.endswith("schemas.json")
        missing.append("the schemas")
    else:
        assert (schema.subject, schema.id) == (SUBJECT, 1)
        assert "OPEN" in schema.schema
