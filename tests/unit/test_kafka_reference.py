"""The comparison with Apache Kafka, without a Kafka: what counts as a difference, and what is expected."""

import re

import pytest
from tests.kafka_reference import page
from tests.kafka_reference.__main__ import complete, report
from tests.kafka_reference.batches import batch, summary
from tests.kafka_reference.compare import Difference, differences, groups, ranges
from tests.kafka_reference.talk import Step

from penstock.wire.records import check_batch


def step(answer: object, version: int = 1) -> Step:
    return Step("Fetch", "at the end", version, answer)


def test_the_page_explains_every_group_of_expected_differences() -> None:
    assert page.text() in page.PAGE.read_text(), "run: python -m tests.kafka_reference --page"


def test_fields_that_differ_are_one_difference_with_their_versions() -> None:
    kafka = [step({"topics": {"orders": {"offset": 1, "same": 2}}}, version) for version in (1, 2, 4)]
    penstock = [step({"topics": {"orders": {"offset": 3, "same": 2}}}, version) for version in (1, 2, 4)]

    [(found, versions)] = differences(kafka, penstock).items()

    assert str(found) == "Fetch at the end: topics.orders.offset: Kafka 1, Penstock 3"
    assert ranges(versions) == "1-2, 4"


def test_what_follows_from_another_error_is_not_listed() -> None:
    kafka = [step({"error_code": 3, "offset": -1})]
    penstock = [step({"error_code": 0, "offset": 5})]

    assert [each.path for each in differences(kafka, penstock)] == ["error_code"]


def test_a_conversation_that_ends_early_is_a_difference() -> None:
    assert len(differences([step({}), step({})], [step({})])) == 1


@pytest.mark.parametrize(("path", "expected"), [("session_id", True), ("something_new", False)])
def test_only_what_is_in_the_list_is_expected(path: str, expected: bool) -> None:
    found = {Difference("Fetch of a new session", path, "'<session_id>'", "0"): [12]}

    assert report(found, whole=False) is expected


def test_an_expected_difference_that_is_gone_fails_the_whole_comparison(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not report({}, whole=True)
    assert f"{sum(len(each.patterns) for each in groups())} expected" in capsys.readouterr().out


def test_an_api_that_is_in_no_conversation_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert not complete({"one": [Step("Fetch", "at the end", 12, {})]})
    told = capsys.readouterr().out
    assert "Fetch v11" in told
    assert "Fetch v12" not in told


def test_batches_of_the_conversations_are_sound() -> None:
    made = batch(b"a", None, b"c", at_ms=5, producer=(1, 2, 3))

    assert check_batch(made).count == 3
    [found] = summary(made)
    assert (found["producer_id"], found["producer_epoch"], found["base_sequence"]) == (1, 2, 3)
    assert found["max_timestamp"] == 5


def test_an_expected_difference_names_a_field_and_what_penstock_answers() -> None:
    """So that another field, or another answer, is a new difference."""
    named = re.compile(r".+: .*[a-z0-9_.]: Kafka .+, Penstock (?!\*$).+")
    patterns = [each for group in groups() for each in group.patterns + group.sometimes]

    whole = re.compile(r"(AlterConfigs twice at once|Produce of null): .+")  # Kafka gives no answer at all.
    assert [each for each in patterns if not named.fullmatch(each) and not whole.fullmatch(each)] == []
