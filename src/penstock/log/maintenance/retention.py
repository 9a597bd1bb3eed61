"""Decides which records retention may delete, by age and by size.

    segments   [ 0 .. 99 ][ 100 .. 199 ][ 200 .. 299 ][ 300 .. active ]
    time          too old     too old        young         young          -> 200
    size       (the newest segments that together reach retention_bytes stay)
    keep_from                        150: a group still needs it          -> 150

The answer is an offset: everything below it may be deleted.  ``Log.delete_before``
takes it and removes the segments that lie wholly below.  A whole segment goes
when its *newest* record is too old, so a record may outlive its time by the
span of its segment; none is deleted early.
"""

from collections.abc import Sequence

from penstock.log.segment import SegmentInfo


def retention_cut(
    segments: Sequence[SegmentInfo],
    now_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
    keep_from: int,
) -> int:
    """The offset below which everything may be deleted: never above ``keep_from``.

    None keeps forever, or without limit.  The active segment counts like the
    others for time: an answer above its base offset asks the caller to roll it
    first.  For size it always stays.
    """
    cut = segments[0].base_offset
    if retention_ms is not None:
        cut = _too_old(segments, now_ms - retention_ms)
    if retention_bytes is not None:
        cut = max(cut, _too_many(segments, retention_bytes))
    return max(segments[0].base_offset, min(cut, keep_from))


def _too_old(segments: Sequence[SegmentInfo], horizon_ms: int) -> int:
    """Behind the last of the oldest segments whose records are all older than the horizon."""
    cut = segments[0].base_offset
    for segment in segments:
        if segment.bytes and segment.max_timestamp >= horizon_ms:
            break
        cut = segment.next_offset
    return cut


def _too_many(segments: Sequence[SegmentInfo], limit_bytes: int) -> int:
    """Where the newest segments that together reach the limit begin."""
    kept_bytes = 0
    for segment in reversed(segments):
        kept_bytes += segment.bytes
        if kept_bytes >= limit_bytes and (segment.bytes or segment.sealed):
            return segment.base_offset
    return segments[0].base_offset
