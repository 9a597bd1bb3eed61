"""States of pipeline runs and requests to stop them: the compacted topic ``__pipelines``.

    key            value (JSON)
    NAME           a ``PipelineRun``: host, start, progress, result
    stop:NAME      a ``StopRequest`` for one run

A run writes its state every few seconds and reads stop requests; both may happen on any
machine.  A run without an update for ``SILENT_MS`` counts as lost; on its own machine it
does as soon as its process is gone.

A second run of the same name is rejected, because it would repeat the work.  If two start
at once, the one whose state is later in the log gives way.

Cost: half a kilobyte every few seconds per run; compaction keeps the last.
"""

import os
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import PipelineRunning
from penstock.model.info import PIPELINE_LIVE, PIPELINE_LOST, PIPELINE_SILENT_MS, PIPELINES_TOPIC, PipelineRun
from penstock.spark.runtime import compacted_topic

if TYPE_CHECKING:
    from penstock.api.broker import Broker
    from penstock.model.message import Receipt, StoredMessage

TOPIC: Final = PIPELINES_TOPIC
STOP: Final = "stop:"
SILENT_MS: Final = PIPELINE_SILENT_MS
LIVE: Final = PIPELINE_LIVE
LOST: Final = PIPELINE_LOST


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to stop one run; later runs of the same name are not affected."""

    run: str
    by: str  # The host it was asked on.
    asked_ms: int


def report(broker: "Broker", state: PipelineRun) -> "Receipt":
    """Publish the state of a run; creates the topic if needed."""
    return compacted_topic.publish(broker, TOPIC, state.name, msgspec.json.encode(state))


def runs(broker: "Broker") -> dict[str, PipelineRun]:
    """The last state of every pipeline that has run, by name."""
    found: dict[str, PipelineRun] = {}
    for message in compacted_topic.messages(broker, TOPIC, 0):
        state = _state_in(message)
        if state is not None:
            found[state.name] = state
    return dict(sorted(found.items()))


def claim(broker: "Broker", state: PipelineRun, now_ms: int) -> int:
    """Claim a name for a run, or raise ``PipelineRunning``; returns the offset of its stop requests."""
    _check_free(state, runs(broker).get(state.name), now_ms)
    receipt = report(broker, state)
    offset = receipt.offset or 0
    earlier: dict[str, PipelineRun] = {}  # Both may have found it free: the first in the log has it.
    for message in compacted_topic.messages(broker, TOPIC, 0):
        if message.offset < offset and message.key == state.name.encode():
            other = msgspec.json.decode(message.value, type=PipelineRun)
            earlier[other.run] = other  # Only the last word of a run counts: it may have ended since.
    for other in earlier.values():
        _check_free(state, other, now_ms)
    return offset + 1


def _check_free(state: PipelineRun, other: PipelineRun | None, now_ms: int) -> None:
    if other is not None and other.run != state.run and is_live(other, now_ms):
        raise PipelineRunning(name=state.name, host=other.host, pid=other.pid)


def is_live(state: PipelineRun, now_ms: int) -> bool:
    """Whether the run appears to be running."""
    return state.state in LIVE and now_ms - state.updated_ms < SILENT_MS and not _is_gone(state)


def _is_gone(state: PipelineRun) -> bool:
    """True if the run was on this machine, and its process is no more."""
    if state.host != socket.gethostname():
        return False
    try:
        os.kill(state.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # It exists, under another user.
    return False


def shown_state(state: PipelineRun, now_ms: int) -> str:
    """The state to show, which is ``LOST`` if the run has not reported for too long."""
    return LOST if state.state in LIVE and not is_live(state, now_ms) else state.state


def ask_to_stop(broker: "Broker", state: PipelineRun, *, by: str, now_ms: int) -> None:
    """Ask a run to end; it checks for requests about once a second."""
    request = StopRequest(run=state.run, by=by, asked_ms=now_ms)
    broker.publish(TOPIC, msgspec.json.encode(request), key=f"{STOP}{state.name}")


def stop_asked(broker: "Broker", state: PipelineRun, offset: int) -> tuple[bool, int]:
    """Whether this run was asked to stop since ``offset``, and where to look from next time."""
    key = f"{STOP}{state.name}".encode()
    asked = False
    for message in compacted_topic.messages(broker, TOPIC, offset):
        offset = message.offset + 1
        if message.key == key:
            asked |= msgspec.json.decode(message.value, type=StopRequest).run == state.run
    return asked, offset


def _state_in(message: "StoredMessage") -> PipelineRun | None:
    """The state in a message; None for other messages and unknown versions."""
    if message.key is None or message.key.startswith(STOP.encode()):
        return None
    try:
        return msgspec.json.decode(message.value, type=PipelineRun)
    except msgspec.MsgspecError:
        return None
