"""What an error is counted by: the bug and its place, not the words."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from penstock.model.failure import MESSAGE_LENGTH_MAX, NO_FAILURE, Failure, describe_error
from penstock.testing import TestBroker
from penstock.workers.outcome import Failed, call_plain


def caught(function: Callable[[], object]) -> Exception:
    try:
        function()
    except Exception as error:  # noqa: BLE001 - that is what is tested.
        return error
    raise AssertionError("it did not raise")


def fingerprint_of(function: Callable[[], object]) -> str:
    return describe_error(caught(function)).fingerprint


def look_up(name: str) -> int:
    return {"a": 1}[name]


def two_places(second: bool) -> None:
    if second:
        raise ValueError("the same words")
    raise ValueError("the same words")


def nested(depth: int) -> None:
    if depth:
        nested(depth - 1)
    raise ValueError(depth)


def wrapped(inner: Callable[[], object]) -> None:
    try:
        inner()
    except Exception as error:
        raise RuntimeError("it did not work") from error


def test_an_error_has_its_class_its_words_and_a_fingerprint() -> None:
    failure = describe_error(caught(lambda: look_up("price")))

    assert failure[:2] == ("KeyError", "'price'")
    assert len(failure.fingerprint) == 12


def test_one_bug_has_one_fingerprint_whatever_the_words() -> None:
    prints = {fingerprint_of(partial(look_up, name)) for name in ("anna", "bert")}

    assert len(prints) == 1


def test_two_places_in_one_function_are_two_bugs() -> None:
    prints = {fingerprint_of(partial(two_places, second)) for second in (False, True)}

    assert len(prints) == 2


def test_another_class_at_the_same_place_is_another_bug() -> None:
    def fail(kind: type[Exception]) -> None:
        raise kind("words")

    prints = {fingerprint_of(partial(fail, kind)) for kind in (ValueError, TypeError)}

    assert len(prints) == 2


def test_lines_added_above_a_function_do_not_make_its_bug_a_new_one() -> None:
    code = "def work(number):\n    x = 1\n    raise ValueError(number)\n"

    def run(text: str, number: int) -> str:
        space: dict[str, Callable[[int], None]] = {}
        exec(compile(text, "module.py", "exec"), space)
        return fingerprint_of(lambda: space["work"](number))

    assert run(code, 1) == run("import os\n\n\n" + code, 2)
    assert run(code, 1) != run(code.replace("    x = 1\n", ""), 1)


def test_how_deep_a_function_called_itself_does_not_matter() -> None:
    assert fingerprint_of(lambda: nested(2)) == fingerprint_of(lambda: nested(9))


def test_one_handler_around_everything_does_not_make_all_bugs_one() -> None:
    first = fingerprint_of(lambda: wrapped(lambda: look_up("x")))
    second = fingerprint_of(lambda: wrapped(lambda: two_places(True)))

    assert first != second


def test_how_penstock_called_the_work_is_no_part_of_the_bug() -> None:
    outcome = call_plain(look_up, ("price",))
    assert isinstance(outcome, Failed)
    assert outcome.error.__traceback__ is not None
    ours = describe_error(outcome.error).fingerprint

    without_us = outcome.error.with_traceback(outcome.error.__traceback__.tb_next)

    assert ours == describe_error(without_us).fingerprint


def test_an_error_in_a_task_group_is_itself() -> None:
    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    async def fail() -> None:
        look_up("price")

    with pytest.raises(ExceptionGroup) as grouped:
        asyncio.run(work())

    assert describe_error(grouped.value)[:2] == ("KeyError", "'price'")


def test_an_error_that_was_never_raised_counts_by_its_words_without_numbers() -> None:
    first, second, other = (describe_error(ValueError(text)) for text in ("order 17", "order 18", "user 18"))

    assert first.fingerprint == second.fingerprint != other.fingerprint


def test_text_is_an_error_without_a_class() -> None:
    failure = describe_error("no stock for 17")

    assert failure[:2] == ("", "no stock for 17")
    assert failure.fingerprint == describe_error("no stock for 4").fingerprint


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_error_is_no_failure(nothing: str | None) -> None:
    assert describe_error(nothing) == NO_FAILURE == Failure("", "", "")


def test_the_words_are_bounded_and_can_be_stored() -> None:
    assert len(describe_error("x" * 5000).message) == MESSAGE_LENGTH_MAX
    describe_error("\ud800").message.encode()


def test_an_error_that_cannot_say_itself_is_described_all_the_same() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe_error(MuteError())[:2] == ("MuteError", "(it has no words)")


def test_dead_letters_of_one_bug_have_one_fingerprint(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"anna", b"bert"])
    for message in penstock.consumer("orders", max_attempts=1).receive(2):
        with pytest.raises(KeyError), message:
            look_up(message.value.decode())

    letters = penstock.dead_letters("orders")

    assert [letter.error for letter in letters] == ["KeyError: 'anna'", "KeyError: 'bert'"]
    assert len({letter.fingerprint for letter in letters}) == 1
