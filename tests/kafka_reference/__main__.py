"""``make kafka-reference``: the same conversations with Apache Kafka and with Penstock, and every difference.

    python -m tests.kafka_reference                 everything; fails if a difference is not expected
    python -m tests.kafka_reference --only groups   conversations whose names begin so
    python -m tests.kafka_reference --page          write what is expected into docs/protocols/kafka.md

It is a test, and uses what the tests and the benchmarks have, so it is here; it needs the jars of
``scripts/install-kafka`` and half a minute, so it is a command and not a part of ``make test``.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.kafka_reference import page
from tests.kafka_reference.compare import Difference, differences, groups, ranges
from tests.kafka_reference.conversations import CONVERSATIONS
from tests.kafka_reference.talk import BY_NAME, Step, Talk

from benchmarks.peers import servers
from benchmarks.peers.servers import Command
from benchmarks.peers.versions import kafka_version
from penstock.frontends.kafka.apis import APIS

KAFKA: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
PENSTOCK: Final = {"PENSTOCK_TOPIC__PARTITIONS": "1", "PENSTOCK_KAFKA__INITIAL_REBALANCE_DELAY": "0ms"}

Conversation = Callable[[Talk], None]


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.page:
        page.write()
        return 0
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    started = time.monotonic()
    chosen = {name: each for name, each in CONVERSATIONS.items() if name.startswith(options.only)}
    kafka, penstock = both(chosen)
    found: dict[Difference, list[int]] = {}
    for name in chosen:
        for each, versions in differences(kafka[name], penstock[name]).items():
            found.setdefault(each, []).extend(versions)
    whole = not options.only
    ok = report(found, whole) & (not whole or complete(kafka))
    print(f"Apache Kafka {kafka_version()}, {sum(map(len, kafka.values()))} requests, ", end="")
    print(f"{len(found)} differences, {time.monotonic() - started:.0f} s")
    return 0 if ok else 1


def missing() -> str:
    """Why there is nothing to compare with."""
    if not servers.program("java"):
        return "Java is not installed"
    return "" if servers.KAFKA.exists() else "no jars of Apache Kafka: scripts/install-kafka needs Maven"


def both(chosen: dict[str, Conversation]) -> tuple[dict[str, list[Step]], dict[str, list[Step]]]:
    """All conversations with each of the servers, at the same time."""
    started_ms = int(time.time() * 1000)
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        addresses = pool.map(stack.enter_context, (_kafka(), _penstock()))
        first, second = pool.map(lambda address: _all(chosen, address, started_ms), list(addresses))
    return first, second


def _all(chosen: dict[str, Conversation], address: str, started_ms: int) -> dict[str, list[Step]]:
    found = {}
    _ready(address, started_ms)
    for name, conversation in chosen.items():
        talk = Talk(address, started_ms)
        try:
            conversation(talk)
        except Exception as error:  # noqa: BLE001 - told as a difference; the other server shows how it goes on.
            talk.steps.append(Step(name, "ended early", 0, {"outcome": repr(error)}))
        finally:
            talk.close()
        found[name] = talk.steps
    return found


def _ready(address: str, started_ms: int) -> None:
    """Let the server make what its coordinators need, which Kafka does when it is asked for one."""
    talk = Talk(address, started_ms)
    for kind in (0, 1):
        talk.settled("FindCoordinator", 3, key="ready", key_type=kind)
    talk.close()


@contextmanager
def _started(command: Command, said: str, environment: dict[str, str]) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="reference-", ignore_cleanup_errors=True) as folder,
        servers.started(command, lambda *_: environment, Path(folder), "127.0.0.1:{port}", said) as server,
    ):
        yield server.address


def _kafka() -> AbstractContextManager[str]:
    return _started(servers.kafka(KAFKA), "", {})


def _penstock() -> AbstractContextManager[str]:
    return _started(servers.penstock, "kafka", PENSTOCK)


def report(found: dict[Difference, list[int]], whole: bool) -> bool:
    """Print every difference below its reason; whether all were expected."""
    known = groups()
    unexpected = []
    for each, versions in found.items():
        line = f"{each} (v{ranges(versions)})"
        taking = [group for group in known if group.takes(each)]
        for group in taking[:1]:
            group.found.append((each, line))
        if not taking:
            unexpected.append(line)
    for group in known:
        if group.found:
            print(f"\n## {group.title}\n{group.reason}")
            print("\n".join(f"  {line}" for _, line in group.found))
    unused = [each for group in known for each in group.patterns if each not in group.used] if whole else []
    _complain("differences that are not expected", unexpected)
    _complain("expected, but not found any more", unused)
    return not unexpected and not unused


def _complain(what: str, lines: list[str]) -> None:
    if lines:
        print(f"\n## {len(lines)} {what}\n" + "\n".join(f"  {line}" for line in lines))


def complete(kafka: dict[str, list[Step]]) -> bool:
    """Whether every API was used in every version that Penstock offers."""
    used = {(each.api, each.version) for steps in kafka.values() for each in steps}
    missed = [
        f"{name} v{version}"
        for name, api in BY_NAME.items()
        for version in range(api.offered[0], api.offered[1] + 1)
        if (name, version) not in used
    ]
    assert len(BY_NAME) == len(APIS)
    _complain("versions of APIs in no conversation", missed)
    return not missed


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.kafka_reference", description=main.__doc__)
    made.add_argument("--only", default="", metavar="NAME", help="conversations whose names begin so")
    made.add_argument("--page", action="store_true", help="write docs/protocols/kafka.md; compare nothing")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
