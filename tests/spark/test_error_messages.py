"""What Spark says, and the sentence that a person gets; as Spark 4.3 has raised them."""

from typing import Any

import pytest

from penstock.errors import QueryFailed, QueryInvalid
from penstock.spark.runtime import error_messages

KNOWN = ["orders", "orders__dlq", "web.clicks", "__groups"]


class SparkError(Exception):
    """An error with what Spark's have: a condition, parameters, a page of text."""

    def __init__(self, condition: str, text: str = "", **parameters: Any) -> None:
        super().__init__(text)
        self._condition = condition
        self._parameters = parameters

    def getCondition(self) -> str:  # noqa: N802 - Spark's name.
        return self._condition

    def getMessageParameters(self) -> dict[str, Any]:  # noqa: N802 - Spark's name.
        return self._parameters


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            SparkError("TABLE_OR_VIEW_NOT_FOUND", relationName="`oders`"),
            "there is no topic or view 'oders'; did you mean orders?",
        ),
        (
            SparkError("TABLE_OR_VIEW_NOT_FOUND", relationName="`web.klicks`"),
            "there is no topic or view 'web.klicks'; did you mean `web.clicks`?",
        ),
        (
            SparkError("TABLE_OR_VIEW_NOT_FOUND", relationName="`zzz`"),
            "there is no topic or view 'zzz'; penstock topic list shows the topics",
        ),
        (
            SparkError("TABLE_OR_VIEW_NOT_FOUND", relationName="`web`.`clicks`"),
            "names with a dot need backticks: `web.clicks`",
        ),
        (
            SparkError("REQUIRES_SINGLE_PART_NAMESPACE", identifier="`a`.`b`.`c`"),
            "there is no topic or view 'a.b.c'; penstock topic list shows the topics",
        ),
        (
            SparkError("UNRESOLVED_COLUMN.WITH_SUGGESTION", objectName="`kye`", proposal="`key`, `value`"),
            "there is no column 'kye'; did you mean key?",
        ),
        (
            SparkError(
                "UNRESOLVED_COLUMN.WITH_SUGGESTION", objectName="`o`.`zzz`", proposal="`o`.`key`, `o`.`a b`"
            ),
            "there is no column 'zzz'; the columns are key, `a b`",
        ),
        (
            SparkError("UNRESOLVED_COLUMN.WITH_SUGGESTION", objectName="`amount`", proposal="`key`, `value`"),
            "there is no column 'amount'; the columns are key, value; for a field of a JSON value use "
            "value:amount",
        ),
        (
            SparkError("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", objectName="`x`"),
            "there is no column 'x'",
        ),
        (SparkError("UNRESOLVED_ROUTINE", routineName="`foo`"), "there is no function 'foo'"),
        (
            SparkError("PARSE_SYNTAX_ERROR", "... SQLSTATE: 42601 (line 2, pos 15)", error="'form'"),
            "there is a syntax error at 'form', line 2, character 16",
        ),
        (
            SparkError("INVALID_IDENTIFIER", ident="web-clicks"),
            "names with characters other than letters, digits and _ need backticks: `web-clicks`",
        ),
        (SparkError("PARSE_EMPTY_STATEMENT"), "the query is empty"),
        (
            SparkError(
                "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                inputSql='"value"', inputType='"BINARY"', requiredType='"STRING"',
            ),
            "value is binary, but text is required; use cast(value as string)",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_query_is_one_sentence(error: SparkError, sentence: str) -> None:
    told = error_messages.penstock_error(error, KNOWN)

    assert isinstance(told, QueryInvalid)
    assert told.facts["why"] == sentence


TRACEBACK = """\
An error occurred while calling o469.getResult.
: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 3.0
Traceback (most recent call last):
  File "penstock/spark/source/reader.py", line 40, in read
    raise OffsetsMissing(topic="orders", partition=0, start=5, end=9)
penstock.errors.OffsetsMissing: offsets 5 to 8 of orders:0 are nowhere [OFFSETS_MISSING]

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TRACEBACK, "offsets 5 to 8 of orders:0 are nowhere"),
        (
            "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to get NULL. SQLSTATE: 22012\n== SQL",
            "Division by zero. Use `try_divide` to get NULL",
        ),
        (
            "An error occurred while calling o1.x.\n: java.lang.RuntimeException: outside\n"
            "\tat org.example.A\nCaused by: java.io.IOException: No space left on device\n\tat B\n",
            "No space left on device",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n  File ...\n"
            "ModuleNotFoundError: No module named 'shop'\n SQLSTATE: 38000",
            "ModuleNotFoundError: No module named 'shop'",
        ),
        ("x: Job 1 cancelled as part of cancellation of all jobs \n\tat org.example.A", "it was cancelled"),
        ("something else\nand a page more", "something else"),
    ],
)
def test_what_fails_while_it_runs_is_one_sentence(text: str, sentence: str) -> None:
    told = error_messages.penstock_error(RuntimeError(text))

    assert isinstance(told, QueryFailed)
    assert told.facts["why"] == sentence


def test_a_sentence_has_an_end() -> None:
    told = error_messages.penstock_error(RuntimeError("x" * 10_000))

    assert len(told.facts["why"]) == error_messages.CHARACTERS_MAX


@pytest.mark.parametrize(
    ("name", "written"), [("orders", "orders"), ("web.clicks", "`web.clicks`"), ("9lives", "`9lives`")]
)
def test_a_name_is_shown_as_sql_takes_it(name: str, written: str) -> None:
    assert error_messages.quoted(name) == written
