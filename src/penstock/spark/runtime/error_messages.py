r"""Turns errors from Spark, which are often a page long, into one sentence.

    [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `kye` ...
    \tat org.apache.spark.sql.errors...              ──>   there is no column 'kye'; did you mean key?

Common mistakes are recognised by Spark's error condition (``UNRESOLVED_COLUMN``) and
its parameters.  A ``PenstockError`` raised in a worker arrives as the end of a
traceback; its message is extracted.  Of any other error the first sentence is kept.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from penstock.errors import PenstockError, QueryFailed, QueryInvalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHARACTERS_MAX: Final = 500
HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
WORKERS: Final = ("pyspark.", "penstock.spark.")  # Main modules of Spark's Python processes.

P = ParamSpec("P")
T = TypeVar("T")

_OURS: Final = re.compile(r"penstock\.errors\.\w+: (.+?) \[[A-Z_]+\]$", re.MULTILINE)
# In Spark's text of an error: [CONDITION] What happened. SQLSTATE: 42703 ...
_THEIRS: Final = re.compile(r"\[[A-Z_][A-Z_0-9.]+\] (.+?)\s*(?:SQLSTATE: \w+|\n\s*at |\Z)", re.DOTALL)
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_PLACE: Final = re.compile(r"\(?line (\d+), pos(?:ition)? (\d+)\)?|; line (\d+) pos (\d+)")
_PYTHON: Final = re.compile(r"^(\w[\w.]*(?:Error|Exception)): (.+)$", re.MULTILINE)
_PART: Final = re.compile(r"`((?:[^`]|``)+)`")
_CANCELLED: Final = "cancelled as part of cancellation of all jobs"  # What PySpark does at a Ctrl-C.
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def hide_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that Spark calls, so that it reports our errors without a traceback.

    Spark reports an error in one of its Python processes with the whole traceback, unless this variable is
    set there.  The process ends after reporting an error, so no other error is cut short.
    """

    @wraps(method)
    def wrapper(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return method(*arguments, **options)
        except PenstockError:
            if _is_spark_worker():
                os.environ[HIDE_TRACEBACK] = "1"
            raise

    return wrapper


def _is_spark_worker() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith(WORKERS)


@contextmanager
def unlogged() -> Iterator[None]:
    """PySpark logs the errors that it raises, stack and all; in this block it does not."""
    from pyspark.logger import (
        PySparkLogger,  # Asked by us first, they would be loggers that PySpark cannot use.
    )

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def silence_spark_log(spark: "SparkSession") -> None:
    """Turn off Spark's log, for programs that print errors themselves."""
    if hasattr(spark, "_jsc"):  # Spark Connect has its log elsewhere.
        spark.sparkContext.setLogLevel("OFF")


def penstock_error(error: Exception, known: Iterable[str] = ()) -> PenstockError:
    """The Penstock error for an error of Spark; ``known`` are the names that a query may use."""
    condition = getattr(error, "getCondition", lambda: None)() or ""
    parameters = getattr(error, "getMessageParameters", lambda: None)() or {}
    text = str(error)
    if ours := _OURS.search(text):
        return QueryFailed(why=ours[1])
    if _CANCELLED in text:
        return QueryFailed(why="it was cancelled")
    teller = _TELLERS.get(condition.partition(".")[0])
    if teller is not None:
        return QueryInvalid(why=teller(parameters, known, text))
    kind = QueryInvalid if type(error).__name__ in ("AnalysisException", "ParseException") else QueryFailed
    return kind(why=first_sentence(text))


def first_sentence(text: str) -> str:
    """The first sentence of an error that is a page long."""
    causes = _CAUSE.findall(text)
    theirs = _THEIRS.search(text)
    python = _PYTHON.findall(text)
    if theirs and not (python and "Traceback" in theirs[1]):
        sentence = theirs[1].partition("\n")[0]
    elif python:
        sentence = f"{python[-1][0].rpartition('.')[2]}: {python[-1][1]}"
    else:
        sentence = causes[-1] if causes else text.strip().partition("\n")[0]
    return _ending(sentence)


def missing_name(error: Exception) -> list[str] | None:
    """The parts of a table's name that Spark does not know; None if the error is another one."""
    condition = getattr(error, "getCondition", lambda: None)()
    parameters = getattr(error, "getMessageParameters", lambda: None)() or {}
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return parts_of(parameters["relationName"])
    if condition == "REQUIRES_SINGLE_PART_NAMESPACE":
        return parts_of(parameters["identifier"])
    return None


def parts_of(quoted: str) -> list[str]:
    """The parts of a name as Spark writes it: each in backticks, with dots between."""
    return [part.replace("``", "`") for part in _PART.findall(quoted)]


def instead(name: str, known: Iterable[str]) -> str:
    """A suggestion: ``; did you mean orders?``"""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), list(by_lower), n=1)
    return f"; did you mean {quoted(by_lower[near[0]])}?" if near else ""


def quoted(name: str) -> str:
    """A name as SQL takes it: in backticks, if it is no plain word."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name}`"


# What Spark's conditions mean here.


def _no_table(parameters: Mapping[str, Any], known: Iterable[str], _text: str) -> str:
    names = list(known)
    parts = parts_of(parameters.get("relationName") or parameters["identifier"])
    whole = ".".join(parts)
    if len(parts) > 1 and whole in names:
        return f"names with a dot need backticks: `{whole}`"
    return f"there is no topic or view {whole!r}" + (
        instead(whole, names) or "; penstock topic list shows the topics"
    )


def _no_column(parameters: Mapping[str, Any], _known: Iterable[str], _text: str) -> str:
    name = parts_of(parameters["objectName"])[-1]
    there = [parts_of(each)[-1] for each in parameters.get("proposal", "").split(", ") if each]
    ending = instead(name, there) or (f"; the columns are {', '.join(map(quoted, there))}" if there else "")
    if "value" in there and not instead(name, there):
        ending += f"; for a field of a JSON value use value:{name}"
    return f"there is no column {name!r}{ending}"


def _syntax(parameters: Mapping[str, Any], _known: Iterable[str], text: str) -> str:
    return f"there is a syntax error at {parameters['error']}{_location(text)}"


def _unquoted(parameters: Mapping[str, Any], _known: Iterable[str], _text: str) -> str:
    name = parameters["ident"]
    return f"names with characters other than letters, digits and _ need backticks: `{name}`"


def _empty(_parameters: Mapping[str, Any], _known: Iterable[str], _text: str) -> str:
    return "the query is empty"


def _no_function(parameters: Mapping[str, Any], _known: Iterable[str], _text: str) -> str:
    return f"there is no function {parts_of(parameters['routineName'])[-1]!r}"


def _wrong_type(parameters: Mapping[str, Any], _known: Iterable[str], text: str) -> str:
    if parameters.get("inputType") == '"BINARY"' and parameters.get("requiredType") == '"STRING"':
        what = parameters["inputSql"].strip('"')
        return f"{what} is binary, but text is required; use cast({what} as string)"
    return first_sentence(text)


def _location(text: str) -> str:
    found = _PLACE.search(text)
    if found is None:
        return ""
    line, position = (number for number in found.groups() if number is not None)
    return f", line {line}, character {int(position) + 1}"


def _ending(sentence: str) -> str:
    one_line = " ".join(sentence.split()).rstrip(".")
    return one_line if len(one_line) <= CHARACTERS_MAX else one_line[: CHARACTERS_MAX - 1] + "…"


_TELLERS: Final[dict[str, Callable[[Mapping[str, Any], Iterable[str], str], str]]] = {
    "TABLE_OR_VIEW_NOT_FOUND": _no_table,
    "REQUIRES_SINGLE_PART_NAMESPACE": _no_table,
    "UNRESOLVED_COLUMN": _no_column,
    "UNRESOLVED_ROUTINE": _no_function,
    "PARSE_SYNTAX_ERROR": _syntax,
    "PARSE_EMPTY_STATEMENT": _empty,
    "INVALID_IDENTIFIER": _unquoted,
    "DATATYPE_MISMATCH": _wrong_type,
}
