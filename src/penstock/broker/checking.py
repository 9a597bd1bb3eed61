"""Checks and repairs a whole data directory while no broker has it open.

    examine_directory    every file that a broker reads (logs: ``log/maintenance/checking.py``)
    repair_directory     in this order:
                           unreadable settings files are moved aside
                           the broker is opened and closed, which replaces what is missing: groups redeliver
                             messages not known to be settled; nothing scheduled fires twice
                           damaged bytes of all logs are moved aside

Nothing is deleted: damaged data is renamed.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
from crc32c import crc32c

from penstock.broker.access.access import AccessBook
from penstock.broker.core import Core
from penstock.broker.kafka.group_configs import GroupConfigBook
from penstock.broker.registry.registry import ACCESS, GROUPS, SCHEMAS
from penstock.broker.steps import exhaust
from penstock.broker.storage.checked_json import decode_checked, encode_checked
from penstock.broker.storage.recovery import JOURNAL
from penstock.broker.topic.catalogue import MANIFEST, Manifest, StoredTopic
from penstock.clock import Clock, SystemClock
from penstock.config.broker import BrokerConfig
from penstock.errors import DirectoryUnusable, InvalidValue
from penstock.log.files import Files
from penstock.log.maintenance.checking import DAMAGED, Finding, Repaired, Watch, examine, repair
from penstock.schemas.registry import SchemaBook

SNAPSHOT: Final = "snapshot"
CHECKSUM_BYTES: Final = 4  # Before the content of snapshots and digests.
# Settings of the whole directory, and what is lost with each.
SETTINGS: Final[dict[str, tuple[type[Any], str]]] = {
    MANIFEST: (Manifest, "the next start makes it again"),
    ACCESS: (AccessBook, "all keys and users are gone; a server with authentication creates a first one"),
    GROUPS: (GroupConfigBook, "the settings of Kafka groups are gone; they have the usual ones"),
    SCHEMAS: (
        SchemaBook,
        "all schemas are gone, and new ones get their ids, which stored messages refer to; if there is a "
        "copy of the file, restore it before a schema is registered",
    ),
}  # fmt: skip


def size_of(files: Files, directory: str) -> int:
    """The bytes of all logs, for a progress bar."""
    size = 0
    for log in logs_of(files, directory):
        for name in files.list(log):
            if name.endswith(".log"):
                file = files.open(f"{log}/{name}", create=False)
                size += file.size
                file.close()
    return size


def topics_of(files: Files, directory: str) -> list[str]:
    """The directories of all topics."""
    topics = f"{directory}/topics"
    return [f"{topics}/{name}" for name in files.list(topics) if not name.startswith(".")]


def partitions_of(files: Files, topic: str) -> list[str]:
    """The directories of a topic's partitions."""
    return [
        f"{topic}/{number}" for number in sorted(int(name) for name in files.list(topic) if name.isdigit())
    ]


def logs_of(files: Files, directory: str) -> Iterator[str]:
    """The directories of all logs."""
    folders = [f"{directory}/transactions"]
    for topic in topics_of(files, directory):
        folders.append(f"{topic}/intents")
        for partition in partitions_of(files, topic):
            folders += [partition, f"{partition}/{JOURNAL}", f"{partition}/schedule"]
    yield from (folder for folder in folders if files.list(folder))


def examine_directory(files: Files, directory: str, watch: Watch = lambda _: None) -> Iterator[Finding]:
    """Everything that is damaged in a data directory."""
    if not files.list(f"{directory}/topics") and not files.exists(f"{directory}/{MANIFEST}"):
        raise DirectoryUnusable(directory=directory, why="it is no data directory of Penstock")
    for name, (kind, _) in SETTINGS.items():
        yield from _settings(files, f"{directory}/{name}", kind, required=name == MANIFEST)
    for topic in topics_of(files, directory):
        yield from _settings(files, f"{topic}/topic.json", StoredTopic, required=True)
        for partition in partitions_of(files, topic):
            yield from _summed(files, f"{partition}/digest", derived=True)
            yield from _summed(files, f"{partition}/{JOURNAL}/{SNAPSHOT}", derived=False)
    for log in logs_of(files, directory):
        yield from examine(files, log, watch)


def _settings(files: Files, path: str, kind: type[Any], *, required: bool) -> Iterator[Finding]:
    if not files.exists(path):
        if required:
            yield Finding(path=path, why="it is missing")
        return
    try:
        decode_checked(files.read_file(path), kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidValue) as error:
        yield Finding(path=path, why=str(error))


def _summed(files: Files, path: str, *, derived: bool) -> Iterator[Finding]:
    """Check a file that begins with the checksum of the rest."""
    if files.exists(path):
        data = files.read_file(path)
        if crc32c(data[CHECKSUM_BYTES:]) != int.from_bytes(data[:CHECKSUM_BYTES], "big") or not data:
            yield Finding(path=path, why="the checksum does not match", derived=derived)


# Repairing.


def repair_directory(files: Files, directory: str, clock: Clock | None = None) -> Iterator[Repaired]:
    """Repair a directory so that a broker can open it; returns what was done and what is lost."""
    if not files.list(f"{directory}/topics") and not files.exists(f"{directory}/{MANIFEST}"):
        raise DirectoryUnusable(directory=directory, why="it is no data directory of Penstock")
    lock = files.lock(f"{directory}/LOCK")
    try:
        yield from _repair_settings(files, directory)
        for topic in topics_of(files, directory):
            yield from _repair_topic(files, topic)
        for log in logs_of(files, directory):
            if log.endswith(
                ("/intents", "/transactions")
            ):  # With damage in these, a broker refuses to use them.
                yield from repair(files, log)
    finally:
        lock.release()
    _make_up(files, directory, clock or SystemClock())
    lock = files.lock(f"{directory}/LOCK")
    try:
        for log in logs_of(files, directory):
            yield from repair(files, log)
    finally:
        lock.release()


def _make_up(files: Files, directory: str, clock: Clock) -> None:
    """Open and close a broker: it notices what is missing, and writes down what follows from it."""
    core = Core(directory=directory, files=files, clock=clock, config=BrokerConfig(), random=Random())
    exhaust(core.open())
    exhaust(core.close())


def _aside(files: Files, path: str) -> str:
    """Rename a file or directory, so that it is out of the way."""
    number = 0
    while files.exists(f"{path}{DAMAGED}{number}"):
        number += 1
    kept = f"{path}{DAMAGED}{number}"
    files.rename(path, kept)
    files.sync_directory(path.rpartition("/")[0])
    return kept


def _repair_settings(files: Files, directory: str) -> Iterator[Repaired]:
    for name, (kind, lost) in SETTINGS.items():
        path = f"{directory}/{name}"
        if name != MANIFEST and list(_settings(files, path, kind, required=False)):
            yield Repaired(path=path, what=f"moved to {_aside(files, path)}: {lost}")


def _repair_topic(files: Files, topic: str) -> Iterator[Repaired]:
    path = f"{topic}/topic.json"
    partitions = partitions_of(files, topic)
    if list(_settings(files, path, StoredTopic, required=True)):
        kept = f"; the damaged file is {_aside(files, path)}" if files.exists(path) else ""
        made = StoredTopic(partitions=max(len(partitions), 1), retention_ms=None)
        files.write_file(path, encode_checked(made))
        what = (
            f"recreated: {made.partitions} partitions, no retention by age, other settings by default{kept}"
        )
        yield Repaired(path=path, what=what)
    for partition in partitions:
        yield from _repair_partition(files, partition)


def _repair_partition(files: Files, partition: str) -> Iterator[Repaired]:
    for finding in list(_summed(files, f"{partition}/digest", derived=True)):
        files.remove(finding.path)
        yield Repaired(path=finding.path, what="removed; the next start makes it again")
    for finding in list(_summed(files, f"{partition}/{JOURNAL}/{SNAPSHOT}", derived=False)):
        journal = f"{partition}/{JOURNAL}"
        if files.exists(f"{journal}/{0:020d}.log"):
            what = f"moved to {_aside(files, finding.path)}: the journal says the same"
            yield Repaired(path=finding.path, what=what)
        else:
            what = (
                f"the journal was moved to {_aside(files, journal)}: it needs its snapshot. Nobody knows any "
                "more which groups there are: consumers begin anew"
            )
            yield Repaired(path=finding.path, what=what)
