"""The lag of a streaming query, from the progress that Spark reports for a batch.

    query.lastProgress ──> offsets_behind ──> {"orders": {0: 120, 1: 0}}

Spark's Kafka source reports its lag in ``sources[].metrics``.  Spark 4.3 does not ask
Python sources for metrics, but reports both the end of the batch and the end of the
topics; the difference is the lag.
"""

import json
from collections.abc import Mapping
from typing import Any


def offsets_behind(progress: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """By topic and partition, how many offsets the query had still to read when a batch ended.

    ``progress`` is ``query.lastProgress``, what a ``StreamingQueryListener`` gets as ``event.progress``, or
    its JSON.  Sources that are not Penstock's are left out; with PySpark 4.1, which does not ask where the
    topics end, all are.
    """
    behind: dict[str, dict[int, int]] = {}
    for source in progress["sources"]:
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        if end is None or latest is None:
            continue
        for topic, offsets in latest.items():
            known = behind.setdefault(topic, {})
            for partition, offset in offsets.items():
                waiting = max(offset - end.get(topic, {}).get(partition, 0), 0)
                known[int(partition)] = max(waiting, known.get(int(partition), 0))
    return behind


def _offsets(position: Any) -> dict[str, dict[str, int]] | None:
    """A position, which Spark gives as JSON or decoded; None for other sources' positions."""
    try:
        decoded = json.loads(position) if isinstance(position, str) else position
        is_ours = all(isinstance(at, int) for offsets in decoded.values() for at in offsets.values())
    except (ValueError, AttributeError):
        return None
    return decoded if is_ours else None
