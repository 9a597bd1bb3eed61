"""The expected differences as a section of docs/protocols/kafka.md."""

from pathlib import Path
from typing import Final

from tests.kafka_reference.compare import groups

from benchmarks.report import write_between

PAGE: Final = Path(__file__).parents[2] / "docs" / "protocols" / "kafka.md"
BEGIN, END = "<!-- differences: make kafka-reference -->\n", "<!-- end of differences -->\n"


def text() -> str:
    """One entry for each group."""
    return "\n" + "\n".join(f"- **{each.title}.** {each.reason}" for each in groups()) + "\n\n"


def write() -> None:
    """Put it where it belongs."""
    write_between(PAGE, BEGIN, text(), END)
