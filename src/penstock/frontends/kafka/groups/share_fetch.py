"""Records that a group shares: ShareFetch.

    ShareFetch ──> session ──> answers it carries ──> what is there ──> else wait ──> records, who holds them

A fetch takes what the queue groups of its topics lease to its member: up to its records and its bytes, or
one record that is larger, but nothing if it asks for no bytes, as in Kafka.  If there is nothing, it waits
on all the topics, and the first that has something ends it.  So does a request that comes behind
(``hurry``), because its answer would have to wait, too.  The wait is the broker's own, which looks and
waits in one step: no arrival is missed.

What was leased and cannot be sent, because the connection or the session is gone, is given back, and the
attempt does not count.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from penstock.broker.frontend import Running
from penstock.errors import PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.frontends.kafka.groups.acknowledgements import settle
from penstock.frontends.kafka.groups.membership import group_code
from penstock.frontends.kafka.shares import PARTITIONS_MAX, ConsumingMember, Share
from penstock.groups.shares import CLOSE, OPEN, ShareSession
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.share import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from penstock.wire.native import NO_LEASE, LeasedBatch
from penstock.wire.records import CODEC_MASK, decode_batch, read_header
from penstock.wire.rewriting import encode_records

COUNT_MAX: Final = 2**15 - 1  # The highest delivery count that the protocol can tell.

Found = tuple[ConsumingMember, ShareSession]
Extent = tuple[int, int]  # The first offset, and the one after the last.


class ShareFetch:
    def __init__(self, call: KafkaCall[ShareFetchRequest]) -> None:
        self._call = call
        self._request = call.request
        self._records_left = call.request.max_records
        self._bytes_left = call.request.max_bytes
        self._answers: dict[tuple[bytes, int], ShareFetchResponsePartitionData] = {}
        self._got: list[tuple[Share, list[LeasedBatch]]] = []
        self._waits: dict[Share, Running | None] = {}
        self._woken = asyncio.Event()
        self._hurried = False
        self._over = False  # What still comes is given back.

    def hurry(self) -> None:
        """Respond now, with the records there are."""
        self._hurried = True
        self._woken.set()

    async def answer(self) -> ShareFetchResponse:
        try:
            found = self._open()
        except PenstockError as error:
            return ShareFetchResponse(error_code=group_code(error), error_message=words_of(error))
        if not isinstance(found, tuple):
            return ShareFetchResponse(error_code=found)
        member, session = found
        self._note(session)
        if session.size > PARTITIONS_MAX:
            self._call.shared.shares.end_session(member)
            return ShareFetchResponse(error_code=Code.INVALID_REQUEST)
        await self._settle(member)
        if self._request.share_session_epoch == CLOSE:
            self._call.shared.shares.end_session(member)
        elif not self._request.is_renew_ack:
            await self._acquire(member, session)
        return self._response(member.lock_ms)

    # The session.

    def _open(self) -> Found | Code:
        call, request = self._call, self._request
        group, member = request.group_id or "", request.member_id or ""
        if not group or not member:
            return Code.INVALID_REQUEST
        shares, owner = call.shared.shares, call.session
        if request.share_session_epoch != OPEN:
            return shares.session_of(call.operations, group, member, owner, request.share_session_epoch)
        if any(part.acknowledgement_batches for topic in request.topics for part in topic.partitions):
            return Code.INVALID_REQUEST  # Whose would they be?
        code = call.operations.check_share_group(group)
        return code or shares.open_session(call.operations, group, member, owner)

    def _note(self, session: ShareSession) -> None:
        for topic in self._request.topics:
            for part in topic.partitions:
                session.add(topic.topic_id, part.partition_index)
        for forgotten in self._request.forgotten_topics_data:
            session.forget(forgotten.topic_id, forgotten.partitions)

    async def _settle(self, member: ConsumingMember) -> None:
        for topic in self._request.topics:
            for part in topic.partitions:
                if part.acknowledgement_batches:
                    number, batches = part.partition_index, part.acknowledgement_batches
                    code = await settle(self._call, member, topic.topic_id, number, batches)
                    self._answer_of(topic.topic_id, number).acknowledge_error_code = code

    # Taking.

    async def _acquire(self, member: ConsumingMember, session: ShareSession) -> None:
        shares = await self._shares(member, session)
        take = partial(self._take, member, session)
        try:
            for share in shares:
                if self._has_room():
                    await self._look(share, take)
            if shares and not self._got and not self._failed() and self._has_room():
                await self._wait(shares, take)
        except BaseException:
            self._over = True
            for share in shares:
                share.release_others()
            raise

    async def _shares(self, member: ConsumingMember, session: ShareSession) -> list[Share]:
        """The topics of the session, beginning with another one each time."""
        found: list[Share] = []
        for topic_id, numbers in list(session.partitions.items()):
            try:
                share = await self._share(member, topic_id, numbers)
            except PenstockError as error:
                self._fail(topic_id, numbers, code_of(error))
                continue
            if share is not None:
                found.append(share)
        turn = session.epoch % len(found) if found else 0
        return found[turn:] + found[:turn]

    async def _share(self, member: ConsumingMember, topic_id: bytes, numbers: set[int]) -> Share | None:
        """The member's consumer of a topic, limited to the partitions of the session."""
        call = self._call
        topic = call.session.names.get(topic_id)
        if topic is None:
            self._fail(topic_id, numbers, Code.UNKNOWN_TOPIC_ID)
            return None
        there = numbers.intersection(range(call.operations.layout(topic).partitions))
        self._fail(topic_id, numbers - there, Code.UNKNOWN_TOPIC_OR_PARTITION)
        share = await member.share(topic)
        share.wanted = frozenset(there)
        return share

    async def _look(self, share: Share, take: Any) -> None:
        share.consumer.want(share.wanted, self._bytes_left, not self._got)
        try:
            batches = await self._call.run(share.consumer.receive(self._records_left, 0))
        except PenstockError as error:
            self._refuse(share, error)
        else:
            take(share, batches)

    def _take(
        self, member: ConsumingMember, session: ShareSession, share: Share, batches: list[LeasedBatch]
    ) -> None:
        if self._over or member.session is not session or not self._fits(batches):
            share.release_others()
        elif batches:
            share.take(batches)
            self._got.append((share, batches))
            records, size = _extent(batches)
            self._records_left -= records
            self._bytes_left -= size

    def _has_room(self) -> bool:
        return self._records_left > 0 and self._bytes_left > 0

    def _fits(self, batches: list[LeasedBatch]) -> bool:
        """Whether there is room: waits on several topics may end together, and each may fill the answer."""
        records, size = _extent(batches)
        return not self._got or (records <= self._records_left and size <= self._bytes_left)

    # Waiting.

    async def _wait(self, shares: list[Share], take: Any) -> None:
        """Wait until one of the topics has records, the time is over, or ``hurry`` is called."""
        if not self._hurried:
            self._woken.clear()
        for share in shares:
            self._waits[share] = None
            work = share.consumer.receive(self._records_left, max(self._request.max_wait_ms, 0))
            running = self._call.start(work, partial(self._came, share, take))
            if share in self._waits:
                self._waits[share] = running
        await self._woken.wait()
        self._call_off()
        while self._waits:  # These are about to end.
            self._woken.clear()
            await self._woken.wait()

    def _came(self, share: Share, take: Any, batches: Any, error: BaseException | None) -> None:
        self._waits.pop(share, None)
        self._woken.set()
        if error is not None:
            self._refuse(share, error)
        else:
            take(share, batches)
        if error is not None or batches:
            self._call_off()  # What others could bring would be too much.

    def _call_off(self) -> None:
        for share, running in list(self._waits.items()):
            if running is not None and running.call_off():
                del self._waits[share]

    # Answering.

    def _answer_of(self, topic_id: bytes, number: int) -> ShareFetchResponsePartitionData:
        known = self._answers.get((topic_id, number))
        if known is None:
            known = ShareFetchResponsePartitionData(partition_index=number)
            self._answers[topic_id, number] = known
        return known

    def _fail(self, topic_id: bytes, numbers: set[int], code: int) -> None:
        for number in sorted(numbers):
            self._answer_of(topic_id, number).error_code = code

    def _refuse(self, share: Share, error: BaseException) -> None:
        code = Code.UNKNOWN_TOPIC_ID if share.is_gone else code_of(error)
        self._fail(share.topic_id, set(share.wanted), code)

    def _failed(self) -> bool:
        return any(answer.error_code or answer.acknowledge_error_code for answer in self._answers.values())

    def _response(self, lock_ms: int) -> ShareFetchResponse:
        for share, batches in self._got:
            for number in sorted({batch.partition for batch in batches}):
                leased = sorted((batch for batch in batches if batch.partition == number), key=_start)
                answer = self._answer_of(share.topic_id, number)
                answer.records = joined(leased)
                answer.acquired_records = [line for batch in leased for line in acquired(share, batch)]
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for (topic_id, _), answer in self._answers.items():
            topic = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id, partitions=[]))
            topic.partitions.append(answer)
        return ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()))


def _extent(batches: list[LeasedBatch]) -> tuple[int, int]:
    return sum(batch.end - batch.start for batch in batches), sum(len(batch.data) for batch in batches)


def _start(batch: LeasedBatch) -> int:
    return batch.start


def acquired(share: Share, batch: LeasedBatch) -> list[AcquiredRecords]:
    """The acquired records of a lease, without those that are never delivered."""
    ranges = [(batch.start, batch.end)]
    if batch.lease != NO_LEASE:
        runs = share.consumer.unsettled(batch.partition, [batch.lease])
        ranges = [(start, end) for _, _, start, end in runs]
    count = min(batch.attempt, COUNT_MAX)
    return [
        AcquiredRecords(first_offset=start, last_offset=end - 1, delivery_count=count)
        for start, end in ranges
    ]


def joined(leased: list[LeasedBatch]) -> bytes:
    """The record batches of several leases in order, each record once.

    Two leases may have parts of one batch: both contain the whole batch, or one contains it and the other its
    own records alone.  Nothing that is compressed is unpacked, so the answer is never larger than its parts.
    """
    if len(leased) == 1:
        return leased[0].data
    pieces: dict[Extent, bytes] = {}
    wider: list[Extent] = []  # Those of batches that are compressed, and may reach beyond their lease.
    for batch in leased:
        at = 0
        while at < len(batch.data):
            header = read_header(batch.data, at)
            extent = header.base_offset, header.next_offset
            if header.attributes & CODEC_MASK:
                wider.append(extent)
            else:  # It spans what it always did, but has only the lease's records.
                extent = max(extent[0], batch.start), min(extent[1], batch.end)
            pieces[extent] = batch.data[at : at + header.size]
            at += header.size
    for extent in [extent for extent in pieces if any(_overlap(extent, other) for other in wider)]:
        records = [record for record in decode_batch(pieces.pop(extent)) if not _is_in(record.offset, wider)]
        if records:
            pieces[records[0].offset, records[-1].offset + 1] = encode_records(records)
    return b"".join(pieces[extent] for extent in sorted(pieces))


def _overlap(one: Extent, other: Extent) -> bool:
    return one != other and one[0] < other[1] and other[0] < one[1]


def _is_in(offset: int, extents: list[Extent]) -> bool:
    return any(start <= offset < end for start, end in extents)


def share_fetch(call: KafkaCall[ShareFetchRequest]) -> Coroutine[Any, Any, ShareFetchResponse]:
    """Acquire records for a member of a share group."""
    fetch = ShareFetch(call)
    call.hurry = fetch.hurry
    return fetch.answer()


APIS = (Api(ShareFetchRequest, ShareFetchResponse, share_fetch),)
