"""A snapshot of what the broker derives from a partition's whole log, so that opening need not read it.

    producers      the numbers of idempotent producers, to recognise a repeat
    dedup_last     the last offset whose batch carries dedup ids; -1 if none does
    transactions   which are open, and what was aborted (log/transactions.py)

All of it could be read from the batch headers, which takes too long for a log of many
gigabytes.  So it is written to ``<partition>/digest`` whenever a segment is full and
when the broker is closed, and opening reads only the batches after that.  The file is
derived: if it is missing or damaged, opening only takes longer.
"""

import logging
from typing import Final

import msgspec
from crc32c import crc32c

from penstock.broker.state import Partition, State
from penstock.errors import CorruptionError, PenstockError
from penstock.log.files import replace_file
from penstock.log.transactions import IN_TRANSACTION
from penstock.wire.headers import DEDUP_ID
from penstock.wire.records import CONTROL, DEDUP, SCHEDULED

logger = logging.getLogger("penstock")

VERSION: Final = 2  # 1 had no transactions; it is rebuilt.


def save_producer_snapshot(partition: Partition) -> None:
    """Write the snapshot unless it covers the whole log already; on a full disk the old one stays."""
    partition.snapshot_segments = partition.log.segment_count
    end = partition.log.end
    if end == partition.snapshot_end or not end:
        return  # All of it follows from batches, and there are none, or none that are new.
    body = msgspec.msgpack.encode(
        [
            VERSION,
            end,
            partition.dedup_last,
            partition.producers.snapshot(),
            partition.log.transactions.snapshot(),
        ]
    )
    try:
        # Not synced: a torn one is detected and rebuilt from the log.
        replace_file(
            partition.topic.files,
            f"{partition.directory}/digest",
            crc32c(body).to_bytes(4, "big") + body,
            sync=False,
        )
    except PenstockError:
        return
    partition.snapshot_end = end


def load_producer_snapshot(partition: Partition, now_ms: int) -> None:
    """Restore the state from the snapshot and from the batches after it.

    Their producers count as of ``now_ms``: the records may have times of their own.
    """
    start = _read(partition)
    try:
        _walk(partition, start, now_ms)
    except CorruptionError as error:
        # One damaged batch must not keep the others from being read.
        logger.warning("producers and dedup ids of %s may not be complete: %s", partition.directory, error)
        partition.dedup_last = partition.log.end - 1
    partition.snapshot_segments = partition.log.segment_count


def _walk(partition: Partition, start: int, now_ms: int) -> None:
    for header in partition.log.marked_headers(start, DEDUP, summed=True):
        if header.base_offset < start:
            continue
        if header.attributes & DEDUP:
            partition.dedup_last = header.next_offset - 1
        if header.attributes & IN_TRANSACTION:
            partition.log.replay(header)
        if header.attributes & CONTROL:
            partition.producers.end_epoch(header.producer_id, header.producer_epoch, now_ms)
        elif header.producer_id >= 0:
            partition.producers.record(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_offset_delta + 1,  # Not its records: some may be gone.
                header.base_offset,
                now_ms,
            )


def _read(partition: Partition) -> int:
    """Apply the snapshot file; returns the offset that it covers."""
    path = f"{partition.directory}/digest"
    data = partition.topic.files.read_file(path) if partition.topic.files.exists(path) else b""
    if len(data) <= 4 or crc32c(data[4:]) != int.from_bytes(data[:4], "big"):  # Zeros have a sum of zero.
        return partition.log.start
    version, end, *known = msgspec.msgpack.decode(data[4:])
    if version != VERSION or end > partition.log.end:
        # The log came back shorter.  It will grow over that end with other batches, and then this
        # file would seem to fit.
        partition.topic.files.remove(path)
        partition.topic.files.sync_directory(partition.directory)
        return partition.log.start
    partition.dedup_last, producers, transactions = known
    partition.producers.restore(producers)
    partition.log.restore_transactions(transactions)
    partition.snapshot_end = end
    return max(int(end), partition.log.start)


def load_dedup_ids(state: State, partition: Partition) -> None:
    """Fill the topic's dedup window with the ids of this partition that are young enough."""
    topic = partition.topic
    since_ms = state.clock.wall_ms() - topic.settings.dedup_window_ms
    if partition.dedup_last >= partition.log.start:
        try:
            _load_published(partition, since_ms)
        except CorruptionError as error:
            logger.warning("dedup ids of %s may not be complete: %s", partition.directory, error)
    if partition.schedule is not None:
        entries = partition.schedule.log
        _remember(partition, entries.offset_at(since_ms), entries.end, since_ms, scheduled=True)


def _load_published(partition: Partition, since_ms: int) -> None:
    log = partition.log
    for header in log.marked_headers(log.offset_at(since_ms), DEDUP):
        # A message that was delayed is remembered from when it was accepted: see the schedule.
        if header.attributes & DEDUP and not header.attributes & SCHEDULED:
            _remember(partition, header.base_offset, header.next_offset, since_ms, scheduled=False)


def _remember(partition: Partition, start: int, end: int, since_ms: int, *, scheduled: bool) -> None:
    log = partition.log
    if scheduled:
        assert partition.schedule is not None
        log = partition.schedule.log
    known = partition.topic.dedup
    for first in range(start, end, 1000):
        for record in log.records(first, min(first + 1000, end)):
            for name, value in record.headers:
                if name == DEDUP_ID and value is not None and record.timestamp > since_ms:
                    dedup_id = value.decode("utf-8", "replace")
                    # The same id may be in two places, if the wall clock was set; the last one counts.
                    if record.timestamp >= known.time_ms(dedup_id):
                        known.add(dedup_id, partition.number, record.offset, record.timestamp, scheduled)
