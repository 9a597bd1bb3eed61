"""Text for people and documents for programs."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cli.text import (
    bytes_field,
    json_lines,
    rounded_duration,
    rounded_size,
    safe,
    safe_bytes,
    shortened,
    time_iso,
    time_text,
)


def obeyed(text: str) -> list[str]:
    """The characters of a text that a terminal acts on, or that change its direction."""
    return [
        letter
        for letter in text
        if ord(letter) < 0x20
        or 0x7F <= ord(letter) < 0xA0
        or letter in "\u202a\u202b\u202c\u202d\u202e\u2066\u2069"
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"plain", "plain"),
        ("grün €".encode(), "grün €"),
        (b"\x1b[31m", "\\x1b[31m"),
        (b"a\tb\nc\r", "a\\tb\\nc\\r"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("\x9b2J\u202e".encode(), "\\x9b2J\\u202e"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(value: bytes, shown: str) -> None:
    assert safe_bytes(value) == shown


@given(st.binary())
def test_no_bytes_reach_a_terminal_as_commands(value: bytes) -> None:
    assert obeyed(safe_bytes(value)) == []
    assert obeyed(safe(value.decode("utf-8", "surrogateescape"))) == []
    safe(value.decode("utf-8", "surrogateescape")).encode()  # And all of it can be printed.


@given(st.text(st.characters(exclude_categories=[])))
@example("\udcff \x7f")
def test_a_document_is_one_safe_line_and_means_the_same(text: str) -> None:
    line = json_lines([{"value": text}])

    assert obeyed(line.removesuffix("\n")) == []
    assert json.loads(line.encode()) == json.loads(json.dumps({"value": text}))


def test_bytes_are_text_or_base_64() -> None:
    assert bytes_field("key", None) == {"key": None}
    assert bytes_field("key", "grün".encode()) == {"key": "grün"}
    assert bytes_field("key", b"\xff\x00") == {"key_base64": "/wA="}


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (0, "0 ms"), (0.04, "0.04 ms"), (0.412, "0.4 ms"), (12.4, "12 ms"), (999, "999 ms"),
        (1000, "1 s"), (31_002, "31 s"),
        (119_000, "119 s"), (120_000, "2 min"), (5_400_000, "90 min"), (7_200_000, "2 h"),
        (172_800_000, "2 d"), (7 * 86_400_000, "7 d"),
    ],
)  # fmt: skip
def test_a_duration_has_the_unit_that_suits_it(duration_ms: float, shown: str) -> None:
    assert rounded_duration(duration_ms) == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e6, "2.0 MB"), (3e15, "3000.0 TB")],
)
def test_a_size_has_the_unit_that_suits_it(size_bytes: float, shown: str) -> None:
    assert rounded_size(size_bytes) == shown


def test_times_are_utc() -> None:
    assert time_text(1_767_225_600_999) == "2026-01-01 00:00:00"
    assert time_iso(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"


def test_long_text_ends_in_an_ellipsis() -> None:
    assert [shortened("abcd", 4), shortened("abcde", 4)] == ["abcd", "abc…"]
