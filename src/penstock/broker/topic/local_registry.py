"""The registry of a single broker: files of its directory."""

from penstock.broker.state import State
from penstock.broker.steps import Steps
from penstock.broker.topic.catalogue import Catalogue
from penstock.broker.topic.groups import Groups
from penstock.broker.topic.topics import Topics
from penstock.config.broker import TopicSettings


class LocalRegistry:
    """See ``Registry``; ``groups`` are written to new partitions."""

    def __init__(self, state: State, catalogue: Catalogue, topics: Topics, groups: Groups) -> None:
        self._files = state.files
        self._directory = state.directory
        self._catalogue = catalogue
        self._topics = topics
        self._groups = groups
        self.new_producer_id = catalogue.new_producer_id
        self.reserve_generations = catalogue.reserve_generations

    def owner(self, topic: str, number: int) -> tuple[int, int] | None:  # noqa: ARG002 - there is one node.
        return None

    def create_topic(self, name: str, settings: TopicSettings, *, limited: bool) -> Steps[None]:
        return self._topics.make(name, settings, limited=limited)

    def alter_topic(self, name: str, settings: TopicSettings) -> Steps[None]:
        return self._topics.change(name, settings, self._groups)

    def delete_topic(self, name: str) -> Steps[None]:
        return self._topics.remove(name)

    def store_segments(self, topic: str, number: int, end: int) -> Steps[None]:  # noqa: ARG002 - they are.
        yield from ()

    def read(self, name: str) -> bytes | None:
        path = f"{self._directory}/{name}"
        return self._files.read_file(path) if self._files.exists(path) else None

    def write(self, name: str, data: bytes) -> Steps[None]:
        self._files.write_file(f"{self._directory}/{name}", data)
        yield from ()

    def refresh_topic(self, name: str) -> Steps[None]:  # noqa: ARG002 - there is one node.
        yield from ()

    @property
    def generations(self) -> int:
        return self._catalogue.generations

    def group_epoch(self, group: str) -> int:  # noqa: ARG002 - there is one node.
        return 0

    def check_coordinator(self, group: str, epoch: int) -> None:
        """Nothing to check: the only node coordinates all groups."""

    @property
    def cluster_id(self) -> str:
        return self._catalogue.cluster_id
