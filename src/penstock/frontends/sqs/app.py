"""The ASGI application: finds protocol and action, authenticates the sender, and writes the answer.

    POST /  x-amz-target: AmazonSQS.<Action>            JSON 1.0
    POST /  or /<account>/<queue>, a form with Action    query protocol; also GET, for Get... and List...
    1  host and origin          as on every HTTP port
    2  body                     at most ``http_body_bytes_max``
    3  signature                if the server requires keys
    4  decode, handler, answer or error of the service

An unexpected error is logged, and the client gets a response without its details.
"""

import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final
from uuid import uuid4

from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.errors import PenstockError, RequestTooLarge
from penstock.frontends.security.identity import NOBODY
from penstock.frontends.sqs.actions import moves, queues, receiving, sending, settling
from penstock.frontends.sqs.call import SqsCall, SqsShared
from penstock.frontends.sqs.errors import SqsError, missing, of_broker
from penstock.frontends.sqs.signers import identify
from penstock.wire.sqs import requests
from penstock.wire.sqs.answers import AnyAnswer, json_answer, xml_answer, xml_error
from penstock.wire.sqs.query import read_form
from penstock.wire.sqs.signatures import SignedRequest, read_authorization

Handler = Callable[[SqsCall, Any], Awaitable[AnyAnswer]]
Headers = dict[bytes, bytes]

JSON: Final = b"application/x-amz-json-1.0"
XML: Final = b"text/xml"
LOOKS: Final = ("Get", "List")  # Actions that change nothing; only these by GET, which any web page can send.
CLOSE: Final = (b"connection", b"close")
TRACE: Final = b"x-amzn-trace-id"  # Of AWS X-Ray.

HANDLERS: Final[dict[str, Handler]] = {
    "AddPermission": queues.add_permission,
    "CancelMessageMoveTask": moves.cancel_message_move_task,
    "ChangeMessageVisibility": settling.change_message_visibility,
    "ChangeMessageVisibilityBatch": settling.change_message_visibility_batch,
    "CreateQueue": queues.create_queue,
    "DeleteMessage": settling.delete_message,
    "DeleteMessageBatch": settling.delete_message_batch,
    "DeleteQueue": queues.delete_queue,
    "GetQueueAttributes": queues.get_queue_attributes,
    "GetQueueUrl": queues.get_queue_url,
    "ListDeadLetterSourceQueues": queues.list_dead_letter_source_queues,
    "ListMessageMoveTasks": moves.list_message_move_tasks,
    "ListQueueTags": queues.list_queue_tags,
    "ListQueues": queues.list_queues,
    "PurgeQueue": queues.purge_queue,
    "ReceiveMessage": receiving.receive_message,
    "RemovePermission": queues.remove_permission,
    "SendMessage": sending.send_message,
    "SendMessageBatch": sending.send_message_batch,
    "SetQueueAttributes": queues.set_queue_attributes,
    "StartMessageMoveTask": moves.start_message_move_task,
    "TagQueue": queues.tag_queue,
    "UntagQueue": queues.untag_queue,
}

_PROCESS: Final = str(uuid4())[:24]  # What request ids of this process begin with; the rest is a number.
_requests: Final = count()

logger = logging.getLogger("penstock")


class ClientGone(Exception):  # noqa: N818 - not an error.
    """The client closed the connection in the middle of its request."""


def make_app(shared: SqsShared) -> ASGIApp:
    """The application over one broker."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        headers: Headers = dict(scope["headers"])
        exchange = SqsExchange(shared, scope, headers, as_json=b"x-amz-target" in headers)
        try:
            await exchange.run(receive, send)
        except (ClientGone, OSError):
            return

    return app


class SqsExchange:
    """A request and its answer, in one of the protocols."""

    def __init__(self, shared: SqsShared, scope: Scope, headers: Headers, *, as_json: bool) -> None:
        self._shared = shared
        self._scope = scope
        self._headers = headers
        self._as_json = as_json
        self._request_id = f"{_PROCESS}{next(_requests):012x}"

    async def run(self, receive: Receive, send: Send) -> None:
        more: list[tuple[bytes, bytes]] = []
        try:
            action, answer = await self._answer(receive)
            status, body = 200, self._written(action, answer)
        except SqsError as error:
            status, body, more = self._refusal(error)
        except PenstockError as error:
            status, body, more = self._refusal(of_broker(error))
        except (ClientGone, OSError):
            raise
        except Exception:
            logger.exception("a request of an SQS client failed")
            failure = SqsError(
                "InternalFailure", "The request failed because of an unexpected error.", 500, sender=False
            )
            status, body, more = self._refusal(failure)
        headers = [
            (b"content-type", JSON if self._as_json else XML),
            (b"content-length", b"%d" % len(body)),
            (b"x-amzn-requestid", self._request_id.encode()),
            *more,
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _written(self, action: str, answer: AnyAnswer) -> bytes:
        if self._as_json:
            return json_answer(answer)
        return xml_answer(action, answer, self._request_id)

    def _refusal(self, error: SqsError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        more = [CLOSE] if error.status == 413 else []
        if not self._as_json:
            return error.status, xml_error(error.code, error.message, error.sender, self._request_id), more
        return error.status, error.to_json(), [*more, (b"x-amzn-query-error", error.query_error.encode())]

    async def _answer(self, receive: Receive) -> tuple[str, AnyAnswer]:
        shared, scope = self._shared, self._scope
        shared.origins.check(self._headers, looks=False)
        body = await self._read(receive)
        host = self._headers.get(b"host", b"localhost").decode("latin-1")
        shown = self._headers.get(b"authorization", b"").decode("latin-1")
        url = f"{scope['scheme']}://{host}"
        trace = self._headers.get(TRACE)
        traced = trace.decode("latin-1") if trace else None
        call = SqsCall(shared, scope["path"], url, shown, scope["state"]["lost"], traced)
        await self._login(call, body)
        action, request = self._decode(body)
        return action, await HANDLERS[action](call, request)

    async def _read(self, receive: Receive) -> bytes:
        limit = self._shared.limits.http_body_bytes_max
        announced = self._headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced) > limit:
            raise RequestTooLarge(part="body", limit_bytes=limit)
        pieces: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientGone
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
            size += len(pieces[-1])
            if size > limit:
                raise RequestTooLarge(part="body", limit_bytes=limit)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _login(self, call: SqsCall, body: bytes) -> None:
        if self._shared.gateway.required:
            shown = read_authorization(call.authorization)
            scope = self._scope
            path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
            query = scope["query_string"].decode("latin-1")
            request = SignedRequest(scope["method"], path, query, self._headers, body)
            call.identity = identify(self._shared, shown, request)
        else:
            call.identity = NOBODY
        call.operations = self._shared.gateway.operations(call.identity)

    def _decode(self, body: bytes) -> tuple[str, requests.Request]:
        try:
            if self._as_json:
                if self._scope["method"] != "POST":
                    raise SqsError("InvalidAction", "The header x-amz-target needs a POST request.")
                target = self._headers[b"x-amz-target"].decode("latin-1")
                action = _known(target.removeprefix(requests.TARGET))
                return action, requests.decode_json(action, body)
            text = self._scope["query_string"] if self._scope["method"] == "GET" else body
            fields = read_form(text)
            action = _known(next((value for name, value in fields if name == "Action"), None))
            if self._scope["method"] == "GET" and not action.startswith(LOOKS):
                raise SqsError("InvalidAction", f"The action {action} needs a POST request.")
            return action, requests.decode_query(action, fields)
        except (requests.BadRequestBody, ValueError) as problem:
            name = "SerializationException" if self._as_json else "MalformedQueryString"
            raise SqsError(name, f"The request cannot be decoded: {problem}"[:500]) from None


def _known(action: str | None) -> str:
    if action is None:
        raise SqsError("MissingAction", missing("Action").message)
    if action not in HANDLERS:
        message = f"The action {action[:100]} is not valid for this endpoint."
        raise SqsError("InvalidAction", message)
    return action
