"""Every error reaches a client as the class it was; what a newer server adds, as the next best."""

import inspect
import pickle
import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.errors import (
    InvalidValue,
    PenstockError,
    ProtocolViolation,
    RequestError,
    TopicNotFound,
    UnavailableError,
)
from penstock.wire.native_bodies import (
    consumer_closed_frame,
    decode_consumer_closed,
    decode_error,
    decode_error_frame,
    encode_error,
    error_frame,
)

ROOT = Path(__file__).parents[2]
KINDS: list[type[PenstockError]] = runpy.run_path(str(ROOT / "scripts" / "errors_page.py"))["error_classes"]()
SAMPLES: dict[str, Any] = {"int": 7, "str": "orders", "object": 3.5, "float": 0.5}


def example(kind: type[PenstockError]) -> PenstockError:
    """One error of that class, with a fact for each argument of its constructor."""
    if kind in (PenstockError, RequestError, UnavailableError):
        return kind(reason="the partition is closing")
    parameters = inspect.signature(kind, eval_str=False).parameters.values()
    return kind(**{parameter.name: SAMPLES[parameter.annotation.__name__] for parameter in parameters})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_every_error_arrives_as_what_it_was(kind: type[PenstockError]) -> None:
    error = example(kind)

    copy = decode_error(encode_error(error))

    assert (type(copy), copy.facts, str(copy)) == (type(error), error.facts, str(error))


def from_newer_server(**changes: Any) -> bytes:
    told = {
        "code": "QUOTA_USED_UP",
        "retryable": True,
        "facts": {"quota": 7},
        "text": "no more [QUOTA_USED_UP]",
    }
    return msgspec.msgpack.encode(told | changes)


def test_an_unknown_code_worth_a_retry_is_an_unavailable_error_that_carries_it() -> None:
    error = decode_error(from_newer_server())

    assert type(error) is UnavailableError
    assert (error.code, error.retryable, str(error)) == ("QUOTA_USED_UP", True, "no more [QUOTA_USED_UP]")
    assert UnavailableError.code == "UNAVAILABLE"


def test_an_unknown_code_that_is_final_is_a_request_error_that_carries_it() -> None:
    error = decode_error(from_newer_server(retryable=False))

    assert type(error) is RequestError
    assert (error.code, str(error)) == ("QUOTA_USED_UP", "no more [QUOTA_USED_UP]")


def test_an_unknown_code_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(decode_error(from_newer_server())))

    assert (error.code, str(error)) == ("QUOTA_USED_UP", "no more [QUOTA_USED_UP]")


def test_a_known_code_with_other_facts_keeps_its_code_and_text() -> None:
    error = decode_error(from_newer_server(code="TOPIC_NOT_FOUND", retryable=False, text="gone"))

    assert type(error) is RequestError
    assert (error.code, str(error)) == ("TOPIC_NOT_FOUND", "gone [TOPIC_NOT_FOUND]")


def test_facts_that_do_not_fit_msgpack_travel_as_they_look() -> None:
    error = InvalidValue(name="count", value=10**30, why="it is \udc80 much")

    copy = decode_error(encode_error(error))

    assert type(copy) is InvalidValue
    assert repr(copy.facts["value"]) == "1000000000000000000000000000000"


def test_errors_in_frames_come_out_of_them() -> None:
    error = TopicNotFound(topic="orders")

    answered = decode_error_frame(error_frame(9, error)[5:])
    consumer, told = decode_consumer_closed(consumer_closed_frame(3, error)[5:])

    assert str(answered) == str(told) == str(error)
    assert consumer == 3


def test_bytes_that_are_no_error_are_refused() -> None:
    with pytest.raises(ProtocolViolation):
        decode_error(b"\xc1")
