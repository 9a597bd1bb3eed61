"""What clients are told of errors names no path of the machine, and nothing of the inside of the program."""

import pytest

from penstock.errors import CorruptionError, DiskFull, PenstockError, StorageFailed, TopicNotFound
from penstock.frontends.http.problems import problem
from penstock.frontends.kafka.errors import words_of
from penstock.frontends.native.publishing import outcome
from penstock.frontends.native.session import _public_error
from penstock.frontends.public import public, within_data
from penstock.frontends.text.errors import words
from penstock.wire.native_bodies import decode_error

PATH = "/srv/penstock/data/topics/orders/0/00000000000000000000.log"
ERRORS = [
    CorruptionError(path=PATH, position=7, why="checksum"),
    DiskFull(path=PATH),
    StorageFailed(path=PATH, why="input/output error"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_no_protocol_tells_a_path_of_the_machine(error: PenstockError) -> None:
    told = [problem(error).detail, words_of(error), words(error), str(_public_error(error))]
    told.append(str(decode_error(outcome(error).error)))

    assert not [sentence for sentence in told if "/srv" in sentence]
    assert "topics/orders/0/00000000000000000000.log" in told[0]
    assert public(error).code == error.code


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (PATH, "topics/orders/0/00000000000000000000.log"),
        ("/srv/data/topics/orders/0/journal/00.log", "topics/orders/0/journal/00.log"),
        ("/srv/data/topics/orders/intents/00.log", "topics/orders/intents/00.log"),
        ("/srv/data/transactions/00.log", "transactions/00.log"),
        ("data/topics/topics/3/00.log", "topics/topics/3/00.log"),
    ],
)
def test_a_path_is_told_from_the_data_directory_on(path: str, told: str) -> None:
    assert within_data(path) == told


def test_a_missing_topic_is_told_without_a_function_of_python() -> None:
    assert "create_topic" not in problem(TopicNotFound(topic="nosuch")).detail
