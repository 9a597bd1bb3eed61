"""Restricts remote callers of a Spark session on this machine.

Spark's SQL is made for trusted users of the machine: it reads files (``select * from
text.`/etc/hosts```), runs programs (``transform ...
using``), calls methods of Java (``reflect``), changes settings, and replaces ``${...}`` in a query by
settings and environment variables, including passwords.  For callers of the HTTP API all of this is
disabled, as is everything that is not known to be harmless:

    statements    queries only, which consist of ``NODES``
    files         not as tables (``runSQLOnFiles``)
    variables     ``${...}`` is text like any other (``variable.substitute``)
    functions     those of ``FUNCTIONS`` do not exist in the session

The tables that remain are the views of ``views.py``, which read with the caller's credentials: from the log
by asking the broker, and from the lake only what the broker lets the caller read (``source/scan.py``).
"""

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import QueryInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# What the parser makes of a query; the same for subqueries, and for WITH.
NODES: Final = frozenset(
    {
        "Aggregate", "Distinct", "Except", "Filter", "Generate", "GlobalLimit", "Intersect", "Join",
        "LateralJoin", "LimitAll", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "PipeOperator",
        "Pivot", "Project", "RepartitionByExpression", "Sample", "Sort", "SubqueryAlias", "Union",
        "UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases", "UnresolvedTableValuedFunction", "UnresolvedTVFAliases",
        "UnresolvedWith", "Unpivot", "WithWindowDefinition",
    }
)  # fmt: skip
# They call methods of Java, or read files or addresses that their arguments name: XML names that of its DTD.
FUNCTIONS: Final = (
    "reflect", "java_method", "try_reflect", "from_xml", "schema_of_xml", "from_protobuf", "to_protobuf",
    "from_avro", "to_avro", "schema_of_avro", "xpath", "xpath_boolean", "xpath_double", "xpath_float",
    "xpath_int", "xpath_long", "xpath_number", "xpath_short", "xpath_string",
)  # fmt: skip
ON_FILES: Final = "spark.sql.runSQLOnFiles"
VARIABLES: Final = "spark.sql.variable.substitute"


def restrict(session: "SparkSession") -> None:
    """Remove what remote callers must not use; each session has its own settings and functions."""
    session.conf.set(ON_FILES, "false")
    session.conf.set(VARIABLES, "false")
    internals: Any = session._jsparkSession  # noqa: SLF001 - there is no other way to the functions.
    registry = internals.sessionState().functionRegistry()
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    some, identifier = jvm.scala.Some, jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    for name in FUNCTIONS:
        found = identifier(name, some("builtin"), some("system"))
        registry.dropFunction(found)
        assert not registry.functionExists(found), name


def check_query(plan: Any) -> None:
    """Refuse a parsed statement unless all of its nodes are known to be those of queries."""
    for name in node_names(plan):
        if name not in NODES:
            why = f"over HTTP only queries are run, and this statement contains {name}"
            raise QueryInvalid(why=why)


def node_names(plan: Any) -> "Iterator[str]":
    """The nodes of a plan, with those of its subqueries and common table expressions."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node.getClass().getSimpleName()
        for inner in (node.children(), node.innerChildren()):
            waiting += [inner.apply(number) for number in range(inner.size())]
