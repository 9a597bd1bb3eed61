"""Write the sources that follow from ``src/penstock/operations/spec.py``: ``make generate``.

``--check`` writes nothing and fails if a file is not what it would write;
``tests/unit/test_generated.py`` does the same.  The text of signatures comes from
the syntax tree of the specification and, for operations that only front ends
call, of the broker's methods; ruff sorts the imports, removes those that are not
used, and formats the result.
"""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import penstock.operations.spec  # noqa: F401 - It declares them.
from penstock.model.info import Cancelled
from penstock.operations.entry import OPERATIONS, Operation

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = ROOT / "src" / "penstock"
PAGE: Final = ROOT / "docs" / "protocols" / "native.md"
HEAD: Final = """\
# Generated from operations/spec.py by `make generate`; change it there.
"""
# How the types of arguments travel in msgpack.
WIRE_TYPES: Final = {
    "Duration": "str | int | float",
    "Instant": "str | int | float",
    "Start": "str",
    "Message": "WireMessage",
    "Sequence[Grant]": "list[Grant]",
    "GroupOptions": "dict[str, Any]",
    "TopicOptions": "dict[str, Any]",
}
# The words of an asyncio module, and those of one for threads.
BLOCKING: Final = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b__a(enter|exit|iter)__", r"__\1__"),
    (r"\breceived_async\b", "received"),
    (r"\bapi\.aio_calls\b", "api.broker_calls"),
    (r"\bapi\.aio_handles\b", "api.handles"),
    (r"  # noqa: ASYNC.*", ""),
    (r"for (\w+) in (\w+):\n +yield \1\b", r"yield from \2"),
)
BLOCKING_HEAD: Final = """\
# Generated from its asyncio version by `make generate`; change it there.
"""
BLOCKING_MODULES: Final = {
    "broker_calls": "The methods of ``Broker`` that only call an operation.",
    "handles": "Consumers and producers of a broker, for programs with threads.",
    "broker": """\
A broker, for programs with threads.

    with penstock.open("data") as broker:
        broker.create_topic("orders", partitions=6)
        broker.publish("orders", b"...", key="order-123")
        with broker.consumer("orders", group="processors") as consumer:
            for message in consumer:
                with message:
                    work(message.value)

Every method may be called from any thread.  A method returns when its result is as
durable as the topic promises.  ``penstock.connect(url)`` gives the same class over a
connection, and ``penstock.aio`` the same methods for asyncio (``aio.py``).
""",
}
ANSWERS: Final = {
    "None": "nil",
    "str": "text",
    "dict[int, int]": "{partition: offset}",
    "Cancelled": "{!r}, {!r} or {!r}".format(*get_args(Cancelled)),
}


class Argument(NamedTuple):
    """One argument, as source text."""

    name: str
    kind: str
    default: str | None = None
    keyword_only: bool = False


class Signature(NamedTuple):
    """The arguments and the result of an operation, as source text."""

    arguments: list[Argument]
    result: str
    docstring: str = ""

    @property
    def names(self) -> str:
        return ", ".join(argument.name for argument in self.arguments)

    @property
    def plain(self) -> str:
        """The arguments as operations take them: all of them, by position."""
        return ", ".join(["self", *(f"{argument.name}: {argument.kind}" for argument in self.arguments)])


# Reading sources.


def text_of(path: str) -> str:
    return (SOURCES / path).read_text()


def tree_of(path: str) -> ast.Module:
    return ast.parse(text_of(path))


def imports_of(*trees: ast.Module) -> str:
    """The import statements of modules; ruff removes what is not used."""
    nodes = [node for tree in trees for node in tree.body if isinstance(node, ast.ImportFrom)]
    return "\n".join(ast.unparse(node) for node in nodes) + "\n"


def methods_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The methods of a module's classes, by name."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: node for each in classes for node in each.body if isinstance(node, ast.FunctionDef)}


def signature_of(node: ast.FunctionDef) -> Signature:
    positional = node.args.args[1:]
    without = len(positional) - len(node.args.defaults)
    arguments = [
        argument(each, node.args.defaults[place - without] if place >= without else None)
        for place, each in enumerate(positional)
    ]
    for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        arguments.append(argument(each, default)._replace(keyword_only=True))
    if node.args.kwarg is not None:  # **options: Unpack[TopicOptions]
        assert isinstance(node.args.kwarg.annotation, ast.Subscript)
        arguments.append(Argument(node.args.kwarg.arg, ast.unparse(node.args.kwarg.annotation.slice), "{}"))
    assert node.returns is not None, node.name
    return Signature(arguments, ast.unparse(node.returns), ast.get_docstring(node) or "")


def argument(node: ast.arg, default: ast.expr | None) -> Argument:
    assert node.annotation is not None, node.arg
    return Argument(node.arg, ast.unparse(node.annotation), None if default is None else ast.unparse(default))


def service_signature(node: ast.FunctionDef) -> Signature:
    """What a method of the broker returns to its caller."""
    signature = signature_of(node)
    decorated = [ast.unparse(each) for each in node.decorator_list]
    return signature._replace(result=f"Steps[{signature.result}]") if "at_once" in decorated else signature


SPEC: Final = tree_of("operations/spec.py")
DECLARED: Final = {name: signature_of(node) for name, node in methods_of(SPEC).items()}
CALLED: Final = [each for each in OPERATIONS.values() if each.exposure == "call"]
SERVICES: Final = [tree_of("broker/operations.py"), tree_of("broker/protocols.py")]


def services() -> dict[str, Signature]:
    """The signatures of the broker's methods; the busiest are declared only where programs see them."""
    by_hand = methods_of(tree_of("api/operations.py"))
    found = {
        name: each._replace(result=each.result.replace("Work[", "Steps["))
        for name, each in ((name, signature_of(node)) for name, node in by_hand.items())
    }
    found |= {name: each._replace(result=f"Steps[{each.result}]") for name, each in DECLARED.items()}
    for tree in SERVICES:
        found |= {
            name: service_signature(node) for name, node in methods_of(tree).items() if name in OPERATIONS
        }
    return found


# The interface, the native protocol and its client.


def interface() -> str:
    methods = "\n".join(
        f"    def {name}({each.plain}) -> Work[{each.result}]: ...\n" for name, each in DECLARED.items()
    )
    return f'''{HEAD}"""The operations that are declared in full; the others are in ``operations.py``."""

{imports_of(SPEC)}
from penstock.api.work import Work


class DeclaredOperations(Protocol):
{methods}'''


def calls() -> str:
    structs = "\n\n".join(struct(each) for each in CALLED if DECLARED[each.name].arguments)
    rows = "".join(f"    {each.name!r}: Call({call_fields(each)}),\n" for each in CALLED)
    return f'''{HEAD}"""The operations that clients call by name."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

{imports_of(SPEC)}
from penstock.operations.call import NOT_REPEATED, Call, NoArguments
from penstock.wire.native_bodies import WireMessage


{structs}


CALLS: Final[Mapping[str, Call]] = {{
{rows}}}
'''


def struct(of: Operation) -> str:
    fields = "".join(
        f"    {each.name}: {wire_type(each.kind)}{f' = {each.default}' if each.default else ''}\n"
        for each in DECLARED[of.name].arguments
    )
    return f"class {struct_name(of)}(msgspec.Struct, frozen=True):\n{fields}"


def struct_name(of: Operation) -> str:
    if not DECLARED[of.name].arguments:
        return "NoArguments"
    return "".join(part.capitalize() for part in of.name.split("_")) + "Arguments"


def wire_type(kind: str) -> str:
    parts = " | ".join(WIRE_TYPES.get(part, part) for part in kind.split(" | ")).split(" | ")
    return " | ".join(sorted(set(parts), key=lambda part: (part == "None", parts.index(part))))


def call_fields(of: Operation) -> str:
    """The struct, the answer, the retry class and the wait limit of a call."""
    given = methods_of(SPEC)[of.name].decorator_list[0]
    assert isinstance(given, ast.Call)
    keywords = {each.arg: ast.unparse(each.value) for each in given.keywords}
    retry, wait = keywords.get("retry", "NOT_REPEATED"), keywords.get("wait_ms")
    fields = [struct_name(of), DECLARED[of.name].result, retry, f"wait_ms={wait}" if wait else ""]
    return ", ".join(filter(None, fields))


def client() -> str:
    methods = "\n".join(client_method(each.name) for each in CALLED if each.client)
    return f'''{HEAD}"""The operations of a broker at the end of a connection that are plain calls."""

{imports_of(SPEC)}
from penstock.client.calling import Caller
from penstock.client.work import work


class RemoteCalls(Caller):
{methods}'''


def client_method(name: str) -> str:
    signature = DECLARED[name]
    given = ", ".join([repr(name), *(f"{each.name}={each.name}" for each in signature.arguments)])
    call = f"await self._call({given})"
    lines = ["@work", f"async def {name}({signature.plain}) -> {signature.result}:"]
    if signature.result == "None":
        lines.append(f"    {call}")
    else:
        lines += [f"    answer: {signature.result} = {call}", "    return answer"]
    return "".join(f"    {line}\n" for line in lines)


# The facades.


def facade() -> str:
    declared = [each for each in OPERATIONS.values() if each.function is not None and each.facade]
    methods = "\n".join(facade_method(each.name) for each in declared)
    return f'''{HEAD}"""The methods of ``AsyncBroker`` that only call an operation."""

{imports_of(SPEC)}
from penstock.api.operations import AsyncDriver, Operations


class AsyncBrokerCalls:
    _operations: Operations
    _driver: AsyncDriver

{methods}'''


def facade_method(name: str) -> str:
    signature = DECLARED[name]
    node = methods_of(SPEC)[name]
    call = f"await self._driver.run(self._operations.{name}({signature.names}))"
    lines = [
        f"async def {name}({ast.unparse(node.args)}) -> {signature.result}:",
        *docstring(signature.docstring),
        f"    {'' if signature.result == 'None' else 'return '}{call}",
    ]
    return "".join(f"    {line}\n" if line else "\n" for line in lines)


def docstring(text: str) -> list[str]:
    first, *rest = text.splitlines()
    if not rest:
        return [f'    """{first}"""']
    return [f'    """{first}', *(f"    {line}" if line else "" for line in rest), '    """']


def blocking(source: str, module_docstring: str) -> str:
    """An asyncio module as one for threads: as httpcore does it, by its words."""
    tree = ast.parse(source)
    assert isinstance(tree.body[0], ast.Expr)
    source = "".join(source.splitlines(keepends=True)[tree.body[0].end_lineno :])
    for pattern, replacement in BLOCKING:
        source = re.sub(pattern, replacement, source)
    return f'{BLOCKING_HEAD}"""{module_docstring}"""\n{source}'


# The page.


def page() -> str:
    """docs/protocols/native.md with the table of calls."""
    head, found, rest = PAGE.read_text().partition("| operation | arguments | answer |\n|---|---|---|\n")
    assert found, "the page has lost its table"
    while rest.startswith("|"):
        rest = rest.partition("\n")[2]
    return head + found + "".join(row(each) for each in CALLED) + rest


def row(of: Operation) -> str:
    assert of.function is not None
    defaults = {name: each.default for name, each in inspect.signature(of.function).parameters.items()}
    shown = [
        name if default is inspect.Parameter.empty else f"{name} = {shown_value(default)}"
        for name, default in ({**defaults, "options": {}} if "options" in defaults else defaults).items()
        if name != "self"
    ]
    answer = shown_answer(DECLARED[of.name].result)
    return f"| `{of.name}` |{' ' if shown else ''}{', '.join(shown)} | {answer} |\n"


def shown_value(default: Any) -> str:
    return {"None": "nil", "False": "false"}.get(repr(default), repr(default))


def shown_answer(result: str) -> str:
    if result.startswith("list["):
        return f"[{shown_answer(result[5:-1])}]"
    return " or ".join(ANSWERS.get(part, part) for part in result.split(" | "))


# Permissions.


def needs() -> str:
    lines = [need(each) for each in OPERATIONS.values()]
    return f'''{HEAD}"""The permission that each operation needs."""

from typing import Final

from penstock.frontends.security.need import Need

NEEDS: Final = {{
{"".join(lines)}}}
'''


def need(of: Operation) -> str:
    fields = [repr(of.action)]
    fields += [f"{name}={value!r}" for name in ("topic", "group", "acl") if (value := getattr(of, name))]
    fields += ["audited=True"] if of.audit else []
    return f"    {of.name!r}: Need({', '.join(fields)}),\n"


def guarded() -> str:
    signatures = services()
    methods = "\n".join(guarded_method(each, signatures[each.name]) for each in OPERATIONS.values())
    return f'''{HEAD}"""The broker's operations as one identity may call them."""

{imports_of(SPEC, tree_of("api/operations.py"), *SERVICES)}
from penstock.api.operations import ConsumerOperations, ProducerOperations
from penstock.broker.operations import LocalOperations
from penstock.frontends.security.guard import Guard, filtered, topic_of
from penstock.frontends.security.results import (
    {", ".join(sorted({each.result_filter for each in OPERATIONS.values() if each.result_filter}))}
)


class GuardedOperations(Guard):
    """Every operation of ``LocalOperations``, with the checks of its entry in ``operations/spec.py``."""

{methods}

BrokerOperations = LocalOperations | GuardedOperations  # What a front end calls.
'''


def guarded_method(of: Operation, signature: Signature) -> str:
    signature = signature._replace(
        arguments=[each for each in signature.arguments if each.name != "claim"], docstring=""
    )
    names = [each.name for each in signature.arguments]
    for name in (of.topic, of.group, of.metered, of.transactional_id, of.dead_letter_topic_in, *of.audit):
        assert name is None or name in names, f"{of.name} has no argument {name}"
    steps = signature.result.startswith("Steps[")
    assert steps or not of.waits, f"{of.name} waits, says spec.py, but returns {signature.result}"
    lines = [f"def {of.name}({signature.plain}) -> {signature.result}:", *checked(of)]
    if of.metered:
        lines += ["    if self._limited:", f"        self._meter_{of.metered}({of.metered})"]
    if of.dead_letter_topic_in:
        lines.append(f"    self._check_dead_letter_topic({of.name!r}, {of.dead_letter_topic_in})")
    given = signature.names + (f", self._claim({of.transactional_id})" if of.transactional_id else "")
    lines += guarded_call(of, given, steps=steps)
    return "".join(f"    {line}\n" for line in lines)


def checked(of: Operation) -> list[str]:
    """The permission check; no call for a topic that was checked before, because it is on hot paths."""
    topic = f"topic_of({of.topic})" if of.by_id else of.topic
    if topic and not of.by_id and not of.group:
        known = f"    if {topic} not in self._allowed[{of.name!r}]:"
        return [known, f"        self._check_topic({of.name!r}, {topic})"]
    places = ", ".join(str(each) for each in ([topic, of.group] if of.group else [topic] if topic else []))
    return [f"    self._check({', '.join(filter(None, [repr(of.name), places]))})"]


def guarded_call(of: Operation, given: str, *, steps: bool) -> list[str]:
    """The call of the operation itself, inside what is done besides."""
    operation = f"self._operations.{of.name}"
    if of.audit and steps:
        on = f"({', '.join(of.audit)},)"
        call = f"self._audited({', '.join(filter(None, [repr(of.name), on, operation, given]))})"
    else:
        call = f"{operation}({given})"
    if of.result_filter and steps:
        call = f"filtered({of.result_filter}, self, {call})"
    elif of.result_filter:
        call = f"{of.result_filter}(self, {call})"
    if of.audit and not steps:
        return [f"    with self._auditing({of.name!r}, {', '.join(of.audit)}):", f"        return {call}"]
    if of.creates_topic:
        create = f"self._after_creating({of.topic}, {operation}, {given})"
        if of.result_filter:
            create = f"filtered({of.result_filter}, self, {create})"
        create_first = [f"    if self._operations.is_creatable({of.topic}):", f"        return {create}"]
        return [*create_first, f"    return {call}"]
    return [f"    return {call}"]


# Writing.


def formatted(source: str) -> str:
    """The source with its imports in order, as ruff formats it."""
    fix = ["check", "--fix", "--quiet", "--config", "lint.isort.split-on-trailing-comma=false", "--select"]
    for command in ([*fix, "F401,F811,UP"], [*fix, "I"], ["format"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--stdin-filename",
            str(SOURCES / "generated.py"),
            "-",
        ]
        done = subprocess.run(ruff, input=source, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}{done.stdout}"
        source = done.stdout
    return source


def generated() -> dict[Path, str]:
    """Every file that is written, with its text."""
    sources = {
        "api/aio_calls.py": facade(),
        "api/broker_calls.py": blocking(facade(), BLOCKING_MODULES["broker_calls"]),
        "api/broker.py": blocking(text_of("api/aio.py"), BLOCKING_MODULES["broker"]),
        "api/handles.py": blocking(text_of("api/aio_handles.py"), BLOCKING_MODULES["handles"]),
        "api/declared.py": interface(),
        "client/calls.py": client(),
        "operations/calls.py": calls(),
        "frontends/security/needs.py": needs(),
        "frontends/security/guarded.py": guarded(),
    }
    return {PAGE: page()} | {SOURCES / path: formatted(source) for path, source in sources.items()}


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what `make generate` writes", file=sys.stderr)
        else:
            path.write_text(generated()[path])
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
