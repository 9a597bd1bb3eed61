"""The expected differences as a section of docs/protocols/kafka.md."""

from pathlib import Path
from textwrap import TextWrapper
from typing import Final

from tests.kafka_reference.compare import groups

from benchmarks.report import write_between

PAGE: Final = Path(__file__).parents[2] / "docs" / "protocols" / "kafka.md"
WRAPPED: Final = TextWrapper(138, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
BEGIN, END = "<!-- differences: make kafka-reference -->\n", "<!-- end of differences -->\n"


def text() -> str:
    """One entry for each group."""
    return "\n" + "\n".join(WRAPPED.fill(f"- **{each.title}.** {each.reason}") for each in groups()) + "\n\n"


def write() -> None:
    """Put it where it belongs."""
    write_between(PAGE, BEGIN, text(), END)
