"""Messages that the server places, because a record batch cannot say what they ask for.

That is a time to live, a due time, a dedup id; and all of a call that must find
room together.  The server knows a repeat by dedup ids, so messages without one
get a unique one.
"""

import msgspec

from penstock.client.publish.server_state import ServerState, depth_wait_ms
from penstock.client.publish.units import Unit
from penstock.config.broker import TopicSettings
from penstock.errors import ProtocolViolation
from penstock.model.message import Message
from penstock.operations.codec import receipt_of, wire_message
from penstock.wire.native import ACKS_WRITTEN, PUBLISH_MESSAGES
from penstock.wire.native_bodies import PublishMessages, WireReceipt, decode_body, encode_body


class MessagesRequests:
    def __init__(self, server: ServerState, topic: str) -> None:
        self._server = server
        self._session = server.session
        self._topic = topic
        self._dedup_ids = 0

    async def send(self, units: list[Unit], settings: TopicSettings) -> None:
        """Send units until there is an answer; each has its receipts then, and is finished."""
        producer_id = await self._server.first_producer_id()
        messages: list[Message] = [message for unit in units for message in unit.messages]
        named = [message.dedup_id is not None for message in messages]
        wired = []
        for message in messages:
            encoded = wire_message(message)
            if encoded.dedup_id is None:
                self._dedup_ids += 1
                encoded = msgspec.structs.replace(encoded, dedup_id=f"~{producer_id}-{self._dedup_ids}")
            wired.append(encoded)
        request = PublishMessages(self._topic, units[0].acks or ACKS_WRITTEN, wired)
        body = await self._session.call(
            "publish",
            lambda correlation: encode_body(PUBLISH_MESSAGES, correlation, request),
            repeat=settings.dedup_window_ms >= self._session.timeout_ms,
            wait_ms=depth_wait_ms(settings),
            deadline=units[-1].deadline,
        )
        wire_receipts = decode_body(body, list[WireReceipt])
        if len(wire_receipts) != len(messages):
            raise ProtocolViolation(why=f"{len(wire_receipts)} receipts for {len(messages)} messages")
        receipts = [receipt_of(self._topic, encoded) for encoded in wire_receipts]
        for receipt, own in zip(receipts, named, strict=True):
            receipt.duplicate = receipt.duplicate and own  # Our own ids are only ever repeated by ourselves.
        at = 0
        for unit in units:
            unit.receipts = receipts[at : at + len(unit.messages)]
            at += len(unit.messages)
            unit.finish()
