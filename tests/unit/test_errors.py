"""The error tree is complete, has unique codes, reads well, pickles, and is documented."""

import inspect
import pickle
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from penstock import errors
from penstock.errors import PenstockError, RequestError, UnavailableError

ROOT = Path(__file__).parents[2]
WRITER = runpy.run_path(str(ROOT / "scripts" / "errors_page.py"))
KINDS: list[type[PenstockError]] = WRITER["error_classes"]()
GENERAL = {PenstockError, RequestError, UnavailableError}  # They sort the others, and take any facts.

SAMPLES: dict[str, Any] = {"int": 7, "str": "orders", "object": 3.5}


def example(kind: type[PenstockError]) -> PenstockError:
    """One error of that class, with a fact for each argument of its constructor."""
    if kind in GENERAL:
        return kind(reason="the partition is closing")
    parameters = inspect.signature(kind, eval_str=False).parameters.values()
    return kind(**{parameter.name: SAMPLES[parameter.annotation.__name__] for parameter in parameters})


each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))


def test_the_walk_finds_every_class_of_the_module() -> None:
    """A class outside the tree would be an error nobody can catch by its family."""
    written = {
        value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)
    }

    assert set(KINDS) == written


def test_codes_are_unique() -> None:
    """Two classes with one code would be one error to a client."""
    codes = [kind.code for kind in KINDS]

    assert sorted(set(codes)) == sorted(codes)


@each_kind
def test_a_code_is_its_own_and_in_capitals(kind: type[PenstockError]) -> None:
    assert "code" in vars(kind)
    assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", kind.code)


@each_kind
def test_the_sentence_formats_with_the_facts_of_the_constructor(kind: type[PenstockError]) -> None:
    error = example(kind)

    text = str(error)

    assert text.endswith(f" [{kind.code}]")
    assert "{" not in text


@each_kind
def test_the_sentence_uses_every_fact(kind: type[PenstockError]) -> None:
    """A fact that is not in the sentence is one that a log line will lack."""
    used = set(re.findall(r"{(\w+)", kind.sentence))

    assert used == set(example(kind).facts)


@each_kind
def test_only_unavailable_errors_are_worth_a_retry(kind: type[PenstockError]) -> None:
    assert kind.retryable == issubclass(kind, UnavailableError)


@each_kind
def test_errors_survive_pickling(kind: type[PenstockError]) -> None:
    """Spark workers send errors to the driver by pickle."""
    error = example(kind)

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.facts, str(copy)) == (type(error), error.facts, str(error))


@each_kind
def test_facts_are_attributes_too(kind: type[PenstockError]) -> None:
    error = example(kind)

    assert {name: getattr(error, name) for name in error.facts} == error.facts


@each_kind
def test_a_program_imports_it_from_the_package(kind: type[PenstockError]) -> None:
    assert kind.__module__ == "penstock.errors"
    assert kind.__name__ in vars(errors)["__all__"]  # Computed, so unknown to mypy.


def test_facts_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        errors.TopicNotFound("orders")  # type: ignore[call-arg]


def test_facts_that_a_class_does_not_have_are_refused() -> None:
    with pytest.raises(TypeError, match="topic"):
        errors.TopicNotFound(name="orders")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="topic"):
        errors.TopicNotFound()  # type: ignore[call-arg]


def test_the_page_of_errors_is_up_to_date() -> None:
    """Run `make docs` when this fails."""
    assert (ROOT / "docs" / "errors.md").read_text() == WRITER["page"]()
