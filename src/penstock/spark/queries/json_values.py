"""JSON in SQL: ``value:customer`` on topics without a schema, and variants as text in results.

Spark's operator ``:`` extracts a field of a VARIANT, and refuses the binary columns ``value`` and ``key``
of a topic.  ``parsing_json`` converts them to variants in the text of a query:

    select o.value:customer.name from orders o
    select try_parse_json(string(o.value)):customer.name from orders o

Bytes that are not JSON become null, as do fields that a value does not have.  It is applied only to a query
that Spark has refused, so that a column ``value`` that is a variant already is left alone.

Arrow has no variants, so the variants of a result are sent as text: strings without quotes, everything else
as JSON.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOT_VARIANT: Final = "COLUMN_IS_NOT_VARIANT_TYPE"  # Spark's condition.

_NAME: Final = r"(?:\w+|`(?:[^`]|``)+`)"
_TOKEN: Final = re.compile(
    rf"""
      '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"                      # text
    | --[^\n]* | /\*.*?\*/                                       # comments
    | (?<![\w`.]) (?P<column> (?:{_NAME}\s*\.\s*)* (?:value|key|`value`|`key`) ) (?=\s*:(?!:))
    | {_NAME}                                                    # other names, as a whole
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def is_json_path_refused(error: Exception) -> bool:
    """Whether Spark refused a query because of ``:`` after a column that is not a variant."""
    return getattr(error, "getCondition", lambda: None)() == NOT_VARIANT


def parsing_json(query: str) -> str:
    """The query with ``value`` and ``key`` parsed as JSON where ``:`` follows."""

    def parsed(token: re.Match[str]) -> str:
        return token[0] if token["column"] is None else f"try_parse_json(string({token['column']}))"

    return _TOKEN.sub(parsed, query)


def with_variants_as_text(frame: "DataFrame") -> "DataFrame":
    """The same rows, with text for each column that is or contains a variant."""
    names = frame.columns
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    if not any("variant" in kind for kind in kinds):
        return frame
    numbered = frame.toDF(*(f"c{number}" for number in range(len(names))))  # Names may repeat.
    texts = [_as_text(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return numbered.selectExpr(*texts).toDF(*names)


def _as_text(column: str, kind: str) -> str:
    if kind == "variant":
        return f"string({column})"
    return f"to_json({column})" if re.search(r"[<:,]variant\b", kind) else column
