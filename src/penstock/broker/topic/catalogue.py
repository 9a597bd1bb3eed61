"""Topics on disk: their names, settings and directories.

    data/
      LOCK                      held while a broker has the directory open
      penstock.json             format version, next producer id, generations of Kafka groups; with a
                                checksum, as is
      topics/orders/topic.json  settings, and the topic's id
      topics/orders/0/          partition 0: its log, and below it journal/ and schedule/

A topic appears and disappears by one rename, so a crash leaves either all of
it or none of it; folders that begin with a dot are leftovers and are removed
at the next open.  ``topics.py`` has the steps.  The rest of the broker gets topics
from here and never builds a path.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from random import Random
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from penstock.broker.state import State, Topic
from penstock.broker.storage.checked_json import decode_checked, encode_checked
from penstock.config.broker import TopicSettings
from penstock.errors import DirectoryUnusable, InvalidValue, PenstockError, TopicDamaged
from penstock.log.files import Files, Lock, keep_private

FORMAT_VERSION = 1
MANIFEST = "penstock.json"
# The directory is becoming a cluster, or a cluster is becoming this directory; see cluster/conversion.
CONVERSION = "conversion.json"
LEAVING = "leaving"
SECRETS = ("access.json", "audit.log", "audit.log.1")  # Older versions left them readable for everybody.
PRODUCER_BLOCK = 1000  # Producer ids are reserved on disk this many at a time.
# If penstock.json is lost: more ids than can have been assigned without a trace in any log.
PRODUCERS_FORGOTTEN_MAX = 1 << 24
GENERATIONS_SINCE = 1_700_000_000  # Seconds since 1970; no group comes to a generation each second.
GENERATION_BLOCK = 1000  # Generations of Kafka's groups, too ...
GENERATIONS_NEAR = 100  # ... and so many before the last is given, or groups would wait for the disk.


class Manifest(msgspec.Struct):
    format: int = FORMAT_VERSION
    next_producer_id: int = 1
    generations: int = 0  # No group of Kafka's had a later one.
    cluster_id: str = ""  # By which Kafka's clients know this directory; empty: it has none yet.


class StoredTopic(TopicSettings, frozen=True, kw_only=True):
    id: UUID | None = None  # None: it was written before topics had ids.


class Catalogue:
    """The topics of one data directory."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._files = state.files
        self._topics_path = f"{state.directory}/topics"
        self._manifest_path = f"{state.directory}/{MANIFEST}"
        self._lock: Lock | None = None
        self._manifest = Manifest()
        self._manifest_lost = False
        self._next_producer_id = 0
        self.names: dict[bytes, str] = {}  # Of all topics, by id.
        self.trash: list[str] = []  # Folders of topics that are gone, or never came to be.

    def open(self) -> list[Topic]:
        """Lock the directory and return its topics, without their partitions."""
        self._files.make_directory(self._state.directory)
        self._lock = self._files.lock(f"{self._state.directory}/LOCK")
        try:
            return self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> list[Topic]:
        check_conversion(self._files, self._state.directory)
        self._keep_private()
        if self._files.exists(self._manifest_path):
            self._manifest = self._read_manifest()
        else:
            self._manifest = Manifest(cluster_id=new_cluster_id(self._state.random))
            self._save_manifest(self._manifest)
        self._ensure_cluster_id()
        self._next_producer_id = self._manifest.next_producer_id
        self._files.make_directory(self._topics_path)
        # The names that are there count from now on, also one that the last process failed to sync.
        self._files.sync_directory(self._topics_path)
        topics = []
        for name in sorted(self._files.list(self._topics_path)):
            if name.startswith("."):
                self.trash.append(f"{self._topics_path}/{name}")
                continue
            try:
                topics.append(self._topic(name, self._read_topic(name)))
                self.names[topics[-1].id] = name
            except TopicDamaged as error:
                self.set_offline(error)
        return topics

    def _keep_private(self) -> None:
        """Make the directory inaccessible to other users of the machine."""
        directory = self._state.directory
        # A directory that held something else before is not only ours; what is made in it is private.
        if self._files.exists(self._manifest_path) or self._files.list(directory) == ["LOCK"]:
            keep_private(self._files, directory)
        for name in SECRETS:
            if self._files.exists(f"{directory}/{name}"):
                keep_private(self._files, f"{directory}/{name}")

    def set_offline(self, error: TopicDamaged) -> None:
        """A topic cannot be opened; its files stay as they are."""
        name = error.topic
        self._state.offline[name] = error
        self._state.problems.report(("offline", name), "topic_offline", str(error), topic=name)

    def _read_manifest(self) -> Manifest:
        try:
            manifest = decode_checked(self._files.read_file(self._manifest_path), Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidValue) as error:
            self._manifest_lost = True
            message = f"penstock.json is damaged ({error}); it is recreated from the logs"
            self._state.problems.report("penstock.json", "file_damaged", message)
            return Manifest()
        if manifest.format > FORMAT_VERSION:
            raise DirectoryUnusable(
                directory=self._state.directory,
                why=f"its format is {manifest.format}, this program knows {FORMAT_VERSION}; take a newer one",
            )
        return manifest

    def _ensure_cluster_id(self) -> None:
        """Give a directory of an earlier version a cluster id."""
        if not self._manifest.cluster_id:
            self._manifest.cluster_id = new_cluster_id(self._state.random)
            if self._manifest_lost:
                return  # It is saved when the rest is known again.
            with suppress(PenstockError):  # A full disk, most likely: then it is saved with the next change.
                self._save_manifest(self._manifest)

    @property
    def cluster_id(self) -> str:
        """The cluster id that Kafka clients see."""
        return self._manifest.cluster_id

    def settle(self, highest_producer: Callable[[], int]) -> None:
        """Note that all topics were opened.

        Recreates a damaged penstock.json, with ids and generations beyond all that were assigned.
        """
        if self._manifest_lost:
            self._manifest_lost = False
            self._next_producer_id = max(highest_producer(), 0) + PRODUCERS_FORGOTTEN_MAX
            self._change_manifest(
                next_producer_id=self._next_producer_id,
                generations=max(self._state.clock.wall_ms() // 1000 - GENERATIONS_SINCE, 0),
            )
        if self._lock is not None and not self._state.offline:
            self._lock.settle()

    def _save_manifest(self, manifest: Manifest) -> None:
        self._files.write_file(self._manifest_path, encode_checked(manifest))

    def _read_topic(self, name: str) -> StoredTopic:
        path = f"{self._topics_path}/{name}/topic.json"
        if not self._files.exists(path):
            raise TopicDamaged(topic=name, why="topic.json is missing")
        try:
            return decode_checked(self._files.read_file(path), StoredTopic)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidValue) as error:
            raise TopicDamaged(topic=name, why=f"topic.json: {error}") from None

    def _topic(self, name: str, stored: StoredTopic) -> Topic:
        files = self._state.memory if stored.durability == "memory" else self._files
        directory = f"{self._topics_path}/{name}"
        topic = Topic(name, settings_of(stored), directory, files, self._state.config.dedup_ids_max)
        topic.version = self._state.new_version()
        topic.partitions.node = self._state.lease.node
        topic.id = topic_id(name, stored)
        return topic

    def new(self, name: str, settings: TopicSettings, topic_id: bytes | None = None) -> Topic:
        """A new topic, not stored yet, with a new id unless one is given."""
        return self._topic(name, stored_topic(settings, topic_id or self._state.random.randbytes(16)))

    def prepare(self, topic: Topic) -> str:
        """Create a topic's directory under a temporary name, and return that; in any thread."""
        made = f"{self._topics_path}/.making-{topic.id.hex()}"
        self._files.make_directory(made)
        self._files.write_file(f"{made}/topic.json", encode_checked(stored_topic(topic.settings, topic.id)))
        return made

    def install(self, topic: Topic, made: str) -> None:
        """Rename the prepared directory to the topic's name; durable after ``sync``."""
        if self._files.exists(topic.directory):
            # A full disk may have left this from an earlier try; nothing refers to it.
            self._files.rename(topic.directory, self._going())
        self._files.rename(made, topic.directory)
        self.names[topic.id] = topic.name

    def _going(self) -> str:
        """A new name in the trash for a directory that is deleted."""
        going = f"{self._topics_path}/.going-{self._state.random.randbytes(16).hex()}"
        self.trash.append(going)
        return going

    def sync(self) -> None:
        """Make the names of all topics durable; in any thread."""
        self._files.sync_directory(self._topics_path)

    def remove_some(self, folder: str, count: int) -> bool:
        """Remove up to this many parts of a directory in the trash, finally the directory; in any thread."""
        partitions = [name for name in self._files.list(folder) if name.isdigit()]
        for name in partitions[:count]:
            self._files.remove_tree(f"{folder}/{name}", sync=False)
        if len(partitions) > count:
            return False
        self._files.remove_tree(folder, sync=False)
        return True

    def clear_partitions(self, topic: Topic, first: int) -> None:
        """Remove what an unfinished growth has left, from a partition on."""
        left = [name for name in topic.files.list(topic.directory) if name.isdigit() and int(name) >= first]
        for name in left:
            topic.files.remove_tree(f"{topic.directory}/{name}", sync=False)
        if left:  # One sync for all: there may be thousands, and everybody else waits.
            topic.files.sync_directory(topic.directory)

    def check_change(self, topic: Topic, settings: TopicSettings) -> None:
        """Refuse settings that an existing topic cannot have."""
        if settings.partitions < len(topic.partitions):
            raise InvalidValue(
                name="partitions",
                value=settings.partitions,
                why=f"there are {len(topic.partitions)}, and they stay",
            )
        if settings.durability != topic.settings.durability:
            raise InvalidValue(
                name="durability", value=settings.durability, why="it is fixed when a topic is created"
            )

    def alter(self, topic: Topic, settings: TopicSettings) -> None:
        """Store new settings of a topic."""
        self._files.write_file(
            f"{topic.directory}/topic.json", encode_checked(stored_topic(settings, topic.id))
        )
        topic.version = self._state.new_version()
        topic.settings = settings

    def take_away(self, topic: Topic) -> None:
        """Move a topic's directory to the trash; durable after ``sync``."""
        if self._files.exists(topic.directory):
            self._files.rename(topic.directory, self._going())
        self.forget(topic)
        self._state.memory.remove_tree(topic.directory)

    def delete_offline(self, name: str) -> None:
        """Move the directory of a topic that cannot be opened to the trash."""
        del self._state.offline[name]
        if self._files.exists(f"{self._topics_path}/{name}"):
            self._files.rename(f"{self._topics_path}/{name}", self._going())

    def forget(self, topic: Topic) -> None:
        """Forget the id of a deleted topic."""
        self.names.pop(topic.id, None)

    def new_producer_id(self) -> int:
        """An id that no producer of this directory had before."""
        if self._next_producer_id >= self._manifest.next_producer_id:
            # An id that is not reserved would be given again.
            self._change_manifest(next_producer_id=self._next_producer_id + PRODUCER_BLOCK)
        self._next_producer_id += 1
        return self._next_producer_id - 1

    @property
    def generations(self) -> int:
        """No group of Kafka's had a later generation, in any life of the broker."""
        return self._manifest.generations

    def reserve_generations(self, latest: int) -> None:
        """Note that groups have reached this generation; after a restart they continue above it."""
        if latest + GENERATIONS_NEAR > self._manifest.generations:
            self._change_manifest(generations=latest + GENERATION_BLOCK)

    def _change_manifest(self, **changes: int) -> None:
        manifest = msgspec.structs.replace(self._manifest, **changes)
        self._save_manifest(manifest)
        self._manifest = manifest  # Only now: what is not on disk is not promised.

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def check_conversion(files: Files, directory: str) -> None:
    """Refuse a directory whose conversion is unfinished: only the store knows where the messages are."""
    for name, command in ((CONVERSION, "convert"), (LEAVING, "leave")):
        if files.exists(f"{directory}/{name}"):
            why = f"penstock cluster {command} was interrupted; run it again"
            raise DirectoryUnusable(directory=directory, why=why)


def new_cluster_id(source: Random) -> str:
    """A random UUID as Kafka writes it: in URL-safe base64, not beginning with a hyphen."""
    while True:
        uuid = UUID(int=source.getrandbits(128), version=4)
        text = urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def stored_topic(settings: TopicSettings, topic_id: bytes) -> StoredTopic:
    return StoredTopic(**msgspec.structs.asdict(settings), id=UUID(bytes=topic_id))


def topic_id(name: str, stored: StoredTopic) -> bytes:
    return (stored.id or uuid5(NAMESPACE_URL, f"penstock:{name}")).bytes


def settings_of(stored: StoredTopic) -> TopicSettings:
    return TopicSettings(**{name: getattr(stored, name) for name in TopicSettings.__struct_fields__})
