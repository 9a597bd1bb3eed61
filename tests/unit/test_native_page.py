"""docs/protocols/native.md says what the code does."""

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.api.operations import Operations
from penstock.frontends.kqueue.opcodes import COMMANDS, DELIVERY
from penstock.frontends.kqueue.session import PRIVATE
from penstock.frontends.native.commands import TABLE
from penstock.operations.calls import CALLS
from penstock.wire import native, native_bodies

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocols" / "native.md").read_text()
# Not asked of the module: a compiled one has no source.
SOURCE = (ROOT / "src" / "penstock" / "wire" / "native.py").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of every table row below a heading, up to the next heading."""
    section = PAGE.partition(f"\n{heading}\n")[2]
    assert section, f"there is no {heading!r}"
    section = re.split(r"\n##+ ", section)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("|--")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def opcodes(heading: str) -> dict[int, str]:
    found = {}
    for cells in rows(heading):
        number = re.fullmatch(r"`([0-9a-f]{2})`", cells[0])
        if number:
            found[int(number[1], 16)] = cells[1]
    return found


def constants() -> dict[int, str]:
    """The opcodes of the code, by the names of their constants."""
    names = [line.partition(":")[0] for line in SOURCE.splitlines() if ": Final = 0x" in line]
    skipped = ("COUNT_MAX", "UINT32_MAX")
    return {getattr(native, name): name for name in names if not name.startswith(skipped)}


def test_the_page_has_every_opcode_under_its_name() -> None:
    assert opcodes("## Requests") == constants()


def test_the_server_answers_every_opcode_of_a_client() -> None:
    assert sorted(TABLE) == [opcode for opcode in sorted(constants()) if opcode < native.OK]
    for opcode, command in TABLE.items():
        assert command.__name__ == constants()[opcode].lower()


def test_the_page_has_kqueues_commands() -> None:
    assert opcodes("## KQueue") == {**COMMANDS, DELIVERY: "(server)"}
    assert f"`{PRIVATE}<id>`" in PAGE


def arguments(kind: type[msgspec.Struct]) -> str:
    """The arguments of a call as the page writes them."""
    told = []
    for field in msgspec.structs.fields(kind):
        default: Any = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if default is msgspec.NODEFAULT:
            told.append(field.name)
        else:
            shown = {None: "nil", False: "false"}.get(default) if not isinstance(default, dict) else "{}"
            told.append(f"{field.name} = {shown or repr(default)}")
    return ", ".join(told)


def test_the_page_has_every_operation_with_its_arguments() -> None:
    written = {cells[0].strip("`"): cells[1] for cells in rows("## Operations by name")[1:]}

    assert written == {name: arguments(call.arguments) for name, call in CALLS.items()}


def test_the_page_names_the_type_of_every_answer() -> None:
    for cells in rows("## Operations by name")[1:]:
        answer = CALLS[cells[0].strip("`")].answer
        for name in re.findall(r"[A-Z]\w+", cells[2]):
            assert name in str(answer)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_arguments_of_its_operation_in_their_order(name: str) -> None:
    operation = inspect.signature(getattr(Operations, name))

    fields = [field.name for field in msgspec.structs.fields(CALLS[name].arguments)]

    assert fields == [parameter for parameter in operation.parameters if parameter != "self"]


def test_the_states_acks_and_durabilities_of_the_page_are_those_of_the_code() -> None:
    numbered = [(cells[0], cells[1]) for cells in rows("## Publishing") if cells[0].isdigit()]

    assert numbered == [
        (str(native.ACKS_NONE), "none"),
        (str(native.ACKS_WRITTEN), "written"),
        (str(native.ACKS_DURABLE), "durable"),
        (str(native.WRITTEN), "written"),
        (str(native.DUPLICATE), "duplicate"),
        (str(native.REFUSED), "refused"),
    ]
    for number, durability in enumerate(native.DURABILITIES):
        assert f"{number} `{durability}`" in PAGE


def test_the_frames_that_the_page_shows_are_what_the_code_makes() -> None:
    block = re.search(r"```frames\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    shown = {}
    for line in block[1].splitlines():
        name, _, digits = line.partition(" ")
        shown[name] = bytes.fromhex(digits.replace(" ", ""))

    assert shown == {
        "hello": native_bodies.encode_body(
            native.HELLO, 1, native_bodies.Hello(versions=[1], client="docs/native.md!")
        ),
        "ping": native.frame(native.PING, 2),
        "pong": native.frame(native.OK, 2),
        "receive": native.encode_receive(3, 1, 100, 1000),
        "ack": native.encode_ack(4, 1, [(0, 7, 0, 100)]),
    }


@pytest.mark.parametrize(
    "body",
    [
        native_bodies.Hello,
        native_bodies.Welcome,
        native_bodies.Metadata,
        native_bodies.OpenConsumer,
        native_bodies.OpenedConsumer,
    ],
)
def test_the_page_has_every_field_of_a_map(body: type[msgspec.Struct]) -> None:
    maps = [
        set(re.findall(r"(\w+)(?=[,:}])", text)) for text in re.findall(r"msgpack (\{.*?\}) \|", PAGE + " |")
    ]

    assert any(set(body.__struct_fields__) <= fields for fields in maps)
