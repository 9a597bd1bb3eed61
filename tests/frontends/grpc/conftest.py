"""The gRPC listener, on asyncio's own loop and on uvloop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from tests.frontends.grpc.place import Place, place


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def api() -> AsyncIterator[Place]:
    """The listener over a broker in memory with the topic orders, and a channel to it."""
    async with place() as made:
        yield made
