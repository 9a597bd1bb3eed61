"""Write docs/configuration.md from the settings; ``tests/unit/test_configuration_page.py`` compares the two.

The source of every word is ``src/penstock/config.py``: the comment above a
field of ``TopicSettings``, ``GroupSettings`` or ``BrokerConfig`` is what the
setting means (fields below one comment share it), ``_between`` and ``_CHOICES``
say what it may be, and ``TopicOptions`` and ``GroupOptions`` by which name and
in which unit a program gives it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from penstock import config

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
SOURCE = Path(config.__file__)

HEAD = """\
# Configuration

*Written by `make docs` from `src/penstock/config.py`; change it there.*

Everything has a default. Settings are stored with the topic and with the group, so the next process that
opens the directory finds them. They may be changed later (`alter_topic`, `create_group`), with four
exceptions: partitions only become more, and a topic's `durability`, a group's `kind` and its `ordered` stay.

A **duration** is a `timedelta`, a number of seconds, or text: `250ms`, `30s`, `5m`, `2h`, `7d`, `1h30m`. A
**time** is a `datetime` with a time zone, seconds since 1970, or RFC 3339 text. Sizes are numbers of bytes.
A setting that does not exist, or a value that it may not have, is
[VALUE_INVALID](errors.md#value_invalid) and changes nothing.

```python
from datetime import timedelta

import penstock

with penstock.open("data", config=penstock.BrokerConfig(in_flight_max=1000)) as broker:
    broker.create_topic("orders", partitions=6, retention="14d", depth_max=100_000)
    broker.alter_topic("orders", retention=timedelta(days=30))
    broker.create_group("orders", "billing", visibility_timeout="2m", backoff=["1s", "10s", "1m"])
    assert broker.describe_topic("orders").settings.retention_ms == 30 * 24 * 3600 * 1000
```
"""

SECTIONS: Final = (
    (
        "Topic",
        "TopicOptions",
        "TopicSettings",
        "For `create_topic`, `alter_topic`, and `queue` or `topic` when they make it.",
    ),
    (
        "Group",
        "GroupOptions",
        "GroupSettings",
        "For `create_group`, and for `consumer`, which makes or changes its group. A consumer's own "
        "`visibility_timeout` becomes the group's only when it makes the group.",
    ),
    ("Broker", "", "BrokerConfig", "For `penstock.open(directory, config=penstock.BrokerConfig(...))`."),
)
# What people write for a type that is not a list of choices.
TYPES: Final = {
    "int": "number",
    "bool": "`True`, `False`",
    "str": "text",
    "Duration": "duration",
    "Start": "`earliest`, `latest`, an offset, a time",
    "str | list[Duration]": "`exponential`, a list of durations",
}
UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
BYTES: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

TEXT = SOURCE.read_text()
CLASSES = {node.name: node for node in ast.walk(ast.parse(TEXT)) if isinstance(node, ast.ClassDef)}


def page() -> str:
    """The whole page."""
    return HEAD + "".join(section(*names) for names in SECTIONS)


def section(title: str, options: str, settings: str, how: str) -> str:
    """One table."""
    rows = "".join(
        f"| `{name}` | {kind} | {default} | {meaning} |\n"
        for name, kind, default, meaning in entries(options, settings)
    )
    return (
        f"\n## {title}\n\n{how}\n\n| setting | value | default | meaning |\n| --- | --- | --- | --- |\n{rows}"
    )


def entries(options: str, settings: str) -> Iterator[tuple[str, str, str, str]]:
    """Name, value, default and meaning of each setting, in the order of the source."""
    written = {name: kind for name, kind, _ in fields(CLASSES[options])} if options else {}
    defaults = getattr(config, settings)()
    meanings = comments(CLASSES[settings])
    limits = ranges(CLASSES[settings])
    for field, annotation, _ in fields(CLASSES[settings]):
        name = field if field in written or not options else field.removesuffix("_ms")
        value = accepted(name, written.get(name, annotation), limits.get(field, ""))
        # A duration is shown as people write it; where the name has the unit, it is a plain number.
        unit = field if name != field else field.removesuffix("_ms")
        yield name, value, shown(unit, getattr(defaults, field)), linked(meanings[field], options)


def fields(node: ast.ClassDef) -> list[tuple[str, str, int]]:
    """Name, annotation and line of each field."""
    return [
        (each.target.id, ast.unparse(each.annotation), each.lineno)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]


def comments(node: ast.ClassDef) -> dict[str, str]:
    """The comment that stands above each field, or above the fields that stand together."""
    lines = TEXT.splitlines()
    found: dict[str, str] = {}
    last = ""
    for name, _, number in fields(node):
        above: list[str] = []
        while lines[number - 2 - len(above)].strip().startswith("#"):
            above.insert(0, lines[number - 2 - len(above)].strip().lstrip("# "))
        last = " ".join(above) or last
        assert last, f"{node.name}.{name} needs a comment that says what it means"
        found[name] = last
    return found


def ranges(node: ast.ClassDef) -> dict[str, str]:
    """What ``_between`` allows, by field."""
    found = {}
    for call in ast.walk(node):
        match call:
            case ast.Call(func=ast.Name(id="_between"), args=[ast.Constant(value=str(name)), _, low, high]):
                least, most = (eval(ast.unparse(limit), vars(config)) for limit in (low, high))
                upto = "" if most is None else f" to {shown(name, most)}"
                found[name] = f"{shown(name, least)}{upto}" if upto else f"at least {shown(name, least)}"
            case _:
                pass
    return found


def accepted(name: str, annotation: str, limits: str) -> str:
    """What a caller may write."""
    optional = annotation.endswith(" | None")
    annotation = annotation.removesuffix(" | None")
    choices = config._CHOICES.get(name)  # noqa: SLF001 - this script is the other half of that module.
    text = ", ".join(f"`{choice}`" for choice in choices) if choices else TYPES.get(annotation, annotation)
    text = "milliseconds" if name.endswith("_ms") else text
    return text + (f", {limits}" if limits else "") + (", `None`" if optional else "")


def shown(field: str, value: Any) -> str:
    """A default or a limit as one would write it."""
    if isinstance(value, bool) or value is None or not isinstance(value, int):
        return f"`{value}`" if value != "" else "empty"
    units = UNITS if field.endswith("_ms") else BYTES if "bytes" in field else ()
    for unit, size in units:
        if value >= size and value % size == 0:
            return f"{value // size}{' ' * (units is BYTES)}{unit}"
    return f"{value:,}"


def linked(meaning: str, options: str) -> str:
    """The comment, with the names of settings as code, and as they are written."""
    names = {name for _, _, settings, _ in SECTIONS for name, _, _ in fields(CLASSES[settings])}
    for name in sorted(names, key=len, reverse=True):
        if "_" in name:
            shorter = name.removesuffix("_ms") if options else name
            meaning = re.sub(rf"(?<![`\w]){name}(?![`\w])", f"`{shorter}`", meaning)
    return re.sub(r'"([^"]+)"', r"`\1`", meaning).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
