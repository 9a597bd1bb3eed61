"""The sync and the async API are one: names, parameters, defaults and answers."""

import asyncio
import concurrent.futures
import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import pytest

import penstock
from penstock import aio
from penstock.client.aio import RemoteAsyncBroker
from penstock.client.sync import RemoteBroker
from penstock.model.message import AsyncReceivedMessage, ReceivedMessage
from penstock.testing import AsyncTestBroker, TestBroker

TWINS: dict[type[Any], type[Any]] = {
    penstock.Broker: aio.AsyncBroker,
    penstock.Consumer: aio.AsyncConsumer,
    penstock.Producer: aio.AsyncProducer,
    penstock.Queue: aio.AsyncQueue,
    penstock.TopicHandle: aio.AsyncTopicHandle,
    ReceivedMessage: AsyncReceivedMessage,
    RemoteBroker: RemoteAsyncBroker,
    TestBroker: AsyncTestBroker,
}
# What a twin has under another name, or does in another way, with the reason.
RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}
# What front ends and clusters serve from.
ONLY_ASYNC = {
    "check_storage", "close_within", "keep_share_member", "on_work", "operations", "problems", "route", "run",
    "run_all", "start", "through",
}  # fmt: skip
# What a broker at the end of a connection has beyond one in the process.
ONLY_REMOTE = {"flush", "publish_nowait"}
ONLY_REMOTE_ARGUMENTS = {"acks", "heartbeat", "prefetch"}


def public(kind: type[Any]) -> dict[str, Any]:
    """The members a user sees, by the name they have in the sync twin."""
    wanted = {*RENAMED.values(), *RENAMED}
    members = {
        RENAMED.get(name, name): inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") or name in wanted
    }
    return {name: member for name, member in members.items() if name not in ONLY_ASYNC}


def function_of(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return member.__func__ if isinstance(member, classmethod | staticmethod) else member


def plain(annotation: object) -> str:
    """An annotation as it would be in the sync API."""
    origin = typing.get_origin(annotation)
    if origin is not None and (origin is AsyncIterator or origin is Awaitable):
        inner = plain(typing.get_args(annotation)[0])
        return f"Iterator[{inner}]" if origin is AsyncIterator else inner
    if origin is asyncio.Future or origin is concurrent.futures.Future:
        return f"Future[{plain(typing.get_args(annotation)[0])}]"
    if origin is Iterator:
        return f"Iterator[{plain(typing.get_args(annotation)[0])}]"
    if annotation is type(None):
        return "None"
    text = annotation.__name__ if isinstance(annotation, type) and origin is None else str(annotation)
    return (
        text.replace("Async", "").replace("api.aio_handles", "api.handles").replace("api.aio", "api.broker")
    )


@pytest.mark.parametrize(("sync", "asynchronous"), TWINS.items(), ids=lambda kind: kind.__name__)
def test_twins_have_the_same_members(sync: type[Any], asynchronous: type[Any]) -> None:
    assert public(asynchronous).keys() == public(sync).keys()


@pytest.mark.parametrize(("sync", "asynchronous"), TWINS.items(), ids=lambda kind: kind.__name__)
def test_twins_take_and_answer_the_same(sync: type[Any], asynchronous: type[Any]) -> None:
    others = public(asynchronous)
    for name, member in public(sync).items():
        twin = others[name]
        one, other = function_of(member), function_of(twin)
        if not inspect.isfunction(one):
            continue  # Compiled: it has no annotations to compare.
        assert type(member) is type(twin), name
        ours, theirs = inspect.signature(one).parameters, inspect.signature(other).parameters
        shape = [(p.name, p.kind, p.default) for p in ours.values()]
        assert [(p.name, p.kind, p.default) for p in theirs.values()] == shape, f"{sync.__name__}.{name}"
        hints, other_hints = typing.get_type_hints(one), typing.get_type_hints(other)
        assert {key: plain(hint) for key, hint in other_hints.items()} == {
            key: plain(hint) for key, hint in hints.items()
        }, f"{sync.__name__}.{name}"


@pytest.mark.parametrize(("sync", "asynchronous"), TWINS.items(), ids=lambda kind: kind.__name__)
def test_twins_are_documented_alike(sync: type[Any], asynchronous: type[Any]) -> None:
    others = public(asynchronous)
    for name, member in public(sync).items():
        if inspect.isfunction(function_of(member)) and not name.startswith("__"):
            assert function_of(member).__doc__, f"{sync.__name__}.{name} has no docstring"
            assert function_of(others[name]).__doc__, f"{asynchronous.__name__}.{name} has no docstring"


def test_everything_of_the_async_api_is_awaited() -> None:
    for kind in (aio.AsyncBroker, aio.AsyncConsumer, aio.AsyncProducer, aio.AsyncQueue, aio.AsyncTopicHandle):
        for name, member in public(kind).items():
            function = function_of(member)
            if inspect.isfunction(function) and not isinstance(member, property):
                entered = hasattr(typing.get_type_hints(function).get("return"), "__aenter__")
                awaited = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
                assert awaited or entered, name


def test_both_ways_to_open_take_the_same() -> None:
    assert inspect.signature(penstock.open).parameters.keys() == inspect.signature(aio.open).parameters.keys()


def test_both_ways_to_connect_take_the_same() -> None:
    sync, asynchronous = inspect.signature(penstock.connect), inspect.signature(aio.connect)

    assert {name: p.default for name, p in sync.parameters.items()} == {
        name: p.default for name, p in asynchronous.parameters.items()
    }


@pytest.mark.parametrize(
    ("facade", "remote"), [(penstock.Broker, RemoteBroker), (aio.AsyncBroker, RemoteAsyncBroker)]
)
def test_a_connection_has_what_the_broker_has_and_little_more(facade: type[Any], remote: type[Any]) -> None:
    assert public(remote).keys() - public(facade).keys() == ONLY_REMOTE
    for name, member in public(facade).items():
        if not inspect.isfunction(member):
            continue
        ours = inspect.signature(member).parameters
        theirs = inspect.signature(public(remote)[name]).parameters
        shape = {key: (each.kind, each.default) for key, each in theirs.items()}
        assert {key: (each.kind, each.default) for key, each in ours.items()}.items() <= shape.items(), name
        assert theirs.keys() - ours.keys() <= ONLY_REMOTE_ARGUMENTS, name


def test_every_public_name_is_there() -> None:
    for module in (penstock, aio, __import__("penstock.testing").testing):
        for name in module.__all__:
            assert getattr(module, name) is not None
