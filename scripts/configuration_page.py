"""Write docs/configuration.md and penstock.example.toml from the settings.

``tests/unit/test_configuration_page.py`` compares them with the code.  Everything comes from
``src/penstock/config/broker.py`` and ``config/server.py``: the comment above a field describes the setting
(fields below one comment share it), ``_between`` and ``_CHOICES`` give the accepted values, and
``TopicOptions`` and ``GroupOptions`` the name and unit that programs use.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from penstock.config import broker as config
from penstock.config import server as server_config
from penstock.config.settings import Setting, all_settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLE = ROOT / "penstock.example.toml"
COLUMNS: Final = 100  # Of a comment in the example.

HEAD = """\
# Configuration

*Written by `make docs` from `src/penstock/config/broker.py` and `src/penstock/config/server.py`.*

Every setting has a default. Programs override it with keyword arguments; a server reads a file, environment
variables and flags.

A **duration** is text such as `250ms`, `30s`, `5m`, `2h`, `7d`, `1h30m`, or a number of seconds; in a program
also a `timedelta`. A **time** is RFC 3339 text or seconds since 1970; in a program also a `datetime` with a
time zone. A **size** is a number of bytes; in a file also text such as `64KiB` or `10GiB`.

## In a program

Settings are stored with the topic and the group, so every process that opens the directory uses them. They
can be changed later (`alter_topic`, `create_group`), with four exceptions: the number of partitions can only
grow, and a topic's `durability` and a group's `kind` and `ordered` are fixed. An unknown setting or an
invalid value raises [VALUE_INVALID](errors.md#value_invalid) and changes nothing.

```python
from datetime import timedelta

import penstock

with penstock.open("data", config=penstock.BrokerConfig(in_flight_max=1000)) as broker:
    broker.create_topic("orders", exist_ok=True, partitions=6, retention="14d", depth_max=100_000)
    broker.alter_topic("orders", retention=timedelta(days=30))
    broker.create_group("orders", "billing", visibility_timeout="2m", backoff=["1s", "10s", "1m"])
    assert broker.describe_topic("orders").settings.retention_ms == 30 * 24 * 3600 * 1000
```

## In a server

`penstock serve` reads settings from these sources; later ones override earlier ones:

1. the default,
2. the file given by `--config FILE` (`-config FILE`, or the variable `PENSTOCK_CONFIG`) in [TOML](https://toml.io),
   YAML (`.yaml`, `.yml`) or JSON (`.json`), all with the same sections and names:
   [penstock.example.toml](../penstock.example.toml) has every setting with its default,
3. the environment: `PENSTOCK_TOPIC__RETENTION=14d` sets `retention` in section `topic` (two underscores),
4. flags, for the most common settings: {flags}.

```toml
[listen]
native = "0.0.0.0:7070"

[security]
authentication = true

[topic]
retention = "14d"
retention_bytes = "10GiB"
```

```yaml
listen:
  native: "0.0.0.0:7070"
security:
  authentication: true
topic:
  retention: 14d
```

No limit, forever and never are written `"none"`. The sections `topic` and `group` are defaults for **new**
topics and groups; existing ones keep their settings. The server validates everything at start and reports all
problems at once, each with its origin; an unknown setting is a problem too
([CONFIGURATION_INVALID](errors.md#configuration_invalid)). `penstock config show` prints every value and its
origin.

"""

SEEDS = """
## Equivalents of settings in other systems

GoQueue's configuration file works unchanged (`penstock serve --config config.yaml`), and GoMQ's environment
variables are read before those of Penstock. `penstock config show` lists each of them with its origin; what
has no effect here is listed with the reason, and logged at start. An address without a host such as `:8080`
is every interface if `security.authentication` or `security.insecure` is on, and otherwise 127.0.0.1.

| there | here |
| --- | --- |
| GoQueue `retention.hours`, `retention.bytes` | `topic.retention`, `topic.retention_bytes` (a partition's) |
| GoQueue `partitions: 6` | `topic.partitions`, 6 in a server |
| GoQueue `visibilityTimeout` | `group.visibility_timeout` |
| GoQueue `maxRetries: 3`, GoMQ `GOMQ_MAX_RETRIES` | `group.max_attempts` counts the first delivery too: 4 |
| GoQueue `dlqEnabled`, GoMQ `WithDLQ` | `group.dead_letter`, `topic.dead_letter_topic` |
| GoQueue `maxDelay` | `topic.delay_max` |
| GoQueue `lanes` | no effect: there are always five; `group.lanes` says how they share |
| GoQueue `nodeId`, `replicationFactor` | no effect; a [cluster](cluster.md) has `cluster.node` and a store |
| GoQueue `delay.enabled` | no effect: delayed messages are always possible |
| GoQueue `dataDir`, GoMQ `GOMQ_DATA_DIR` | `server.data`, `--data` |
| GoMQ `GOMQ_STORAGE` memory, disk, hybrid | `topic.durability` `memory`, `fsync`, `os` |
| GoMQ `GOMQ_DEFAULT_TTL` | `topic.ttl` |
| GoMQ `GOMQ_MAX_MESSAGE_SIZE` | `topic.message_bytes_max` |
| GoMQ `GOMQ_MAX_QUEUE_DEPTH`, KQueue's buffer of 100 | `topic.depth_max`, `topic.depth_policy` |
| GoMQ `GOMQ_LISTEN_ADDR`, KQueue's port | `listen.native`, `--native` |
| GoMQ `EnableMetrics`, `MetricsInterval` | `broker.metrics`, `broker.metrics_interval` |
| Simple MQ's port 8081 | `listen.status`, `--status` |
| Simple MQ's port 3000 | `listen.text`, `--text` |
"""

TOML_HEAD = """\
# Settings of a server: penstock serve --config penstock.toml
#
# Written by `make docs`.  Every setting is listed with its default; uncomment the ones that you
# change.  Durations: "250ms", "30s", "5m", "2h", "7d", or seconds.  Sizes: "64KiB", "1MiB", "10GiB", or
# bytes.  No limit, forever, never: "none".  In the environment: PENSTOCK_TOPIC__RETENTION=14d.
"""

PARTS: Final = (
    ("Server", "", "ServerSettings", "The process. Section `server`."),
    (
        "Listen",
        "",
        "ListenSettings",
        "Listening addresses. Section `listen`. HOST:PORT, a port on 127.0.0.1, or `off`; "
        "port 0 picks a free one. Any other host than 127.0.0.1 requires `security.authentication` or "
        "`--insecure`.",
    ),
    ("HTTP", "", "HttpSettings", "The [HTTP API](http.md). Section `http`."),
    ("Limits", "", "LimitSettings", "Limits for clients. Section `limits`."),
    ("Security", "", "SecuritySettings", "Authentication. Section `security`; see [security](security.md)."),
    (
        "Cluster",
        "",
        "ClusterSettings",
        "Running on several nodes. Section `cluster`; see [cluster](cluster.md).",
    ),
    ("TLS", "", "TlsSettings", "Encryption of all listeners. Section `tls`; see [security](security.md)."),
    ("Lake", "", "LakeSettings", "Location of archived messages. Section `lake`."),
    ("Kafka", "", "KafkaSettings", "The Kafka protocol. Section `kafka`."),
    ("gRPC", "", "GrpcSettings", "The gRPC API. Section `grpc`."),
    (
        "Topic",
        "TopicOptions",
        "TopicSettings",
        "For `create_topic`, `alter_topic`, and `queue` or `topic` when they create it. Section `topic`.",
    ),
    (
        "Missing topics",
        "",
        "TopicDefaults",
        "What happens when a program uses a topic that does not exist. Section `topic`; in a program "
        "`BrokerConfig(auto_create_topics=...)`. The former name `kafka.auto_create_topics` "
        "is still accepted.",
    ),
    (
        "Group",
        "GroupOptions",
        "GroupSettings",
        "For `create_group`, and for `consumer`, which creates or changes its group. A consumer's own "
        "`visibility_timeout` becomes the group's only when it creates the group. Section `group`.",
    ),
    (
        "Broker",
        "",
        "BrokerConfig",
        "For `penstock.open(directory, config=penstock.BrokerConfig(...))`. Section `broker`, where a "
        "duration is written without `_ms` and in any unit.",
    ),
)
# What people write for a type that is not a list of choices.
TYPES: Final = {
    "int": "number",
    "bool": "`True`, `False`",
    "str": "text",
    "Duration": "duration",
    "Start": "`earliest`, `latest`, an offset, a time",
    "str | list[Duration]": "`exponential`, a list of durations",
    "TopicSettings": "`TopicSettings`",
    "GroupSettings": "`GroupSettings`",
}
UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
BYTES: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

TEXTS = {module: Path(str(module.__file__)).read_text() for module in (config, server_config)}
# Class by name: its syntax tree, and the lines of its module.
CLASSES = {
    node.name: (node, text.splitlines())
    for text in TEXTS.values()
    for node in ast.walk(ast.parse(text))
    if isinstance(node, ast.ClassDef)
}
SERVER: Final = {(setting.section, setting.field): setting for setting in all_settings()}
SECTIONS: Final = {
    section: type(getattr(server_config.ServerConfig(), section))
    for section in server_config.ServerConfig.__struct_fields__
}
SECTION_OF: Final = {
    kind.__name__: section
    for section, settings in SECTIONS.items()
    for kind in settings.__mro__
    if kind.__name__ in CLASSES
}


def page() -> str:
    """The whole page."""
    flags = ", ".join(f"`{setting.flag}`" for setting in SERVER.values() if setting.flag)
    return HEAD.replace("{flags}", flags) + "".join(part(*names) for names in PARTS).lstrip("\n") + SEEDS


def part(title: str, options: str, settings: str, how: str) -> str:
    """One table."""
    rows = "".join(
        f"| `{name}` | {kind} | {default} | {meaning} | {elsewhere} |\n"
        for name, kind, default, meaning, elsewhere in entries(options, settings)
    )
    head = "| setting | value | default | meaning | variable, flag |\n| --- | --- | --- | --- | --- |\n"
    return f"\n## {title}\n\n{how}\n\n{head}{rows}"


def entries(options: str, settings: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Name, value, default, meaning and variable of each setting, in the order of the source."""
    written = {name: kind for name, kind, _ in fields(options)} if options else {}
    in_a_program = hasattr(config, settings)
    defaults = getattr(config if in_a_program else server_config, settings)()
    meanings = comments(settings)
    limits = ranges(settings)
    for field, annotation, _ in fields(settings):
        server = SERVER.get((SECTION_OF[settings], field))
        shorter = bool(options) or not in_a_program
        name = field.removesuffix("_ms") if shorter else field
        value = accepted(name, field, written.get(name, annotation), limits.get(field, ""))
        # A duration is shown as people write it; where the name has the unit, it is a plain number.
        default = shown(field if shorter else field.removesuffix("_ms"), getattr(defaults, field))
        if in_a_program and server is not None and server.default != getattr(defaults, field):
            default += f", in a server {server.default:,}"
        yield (
            name,
            value,
            default,
            linked(meanings[field], shorter=shorter),
            elsewhere(field, server),
        )


# Settings of a broker that a server decides by itself, or has under another name.
IN_A_SERVER = {
    "auto_create_topics": "`topic.auto_create`",
    "close_timeout_ms": "`server.stop_timeout`",
    "consumers_elsewhere": "always `True`",
    "kafka_configs": "for each topic",
    "sqs_attributes": "for each topic",
}


def elsewhere(field: str, server: Setting | None) -> str:
    """What a setting is in the environment, and its flag."""
    if server is None:
        return IN_A_SERVER.get(field, f"section `{field}`")
    return f"`{server.variable}`" + (f", `{server.flag}`" if server.flag else "")


def fields(name: str) -> list[tuple[str, str, int]]:
    """Name, annotation and line of each field of a class."""
    return [
        (each.target.id, ast.unparse(each.annotation), each.lineno)
        for each in CLASSES[name][0].body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]


def comments(name: str) -> dict[str, str]:
    """The comment that stands above each field, or above the fields that stand together."""
    lines = CLASSES[name][1]
    found: dict[str, str] = {}
    last = ""
    for field, _, number in fields(name):
        above: list[str] = []
        while lines[number - 2 - len(above)].strip().startswith("#"):
            above.insert(0, lines[number - 2 - len(above)].strip().lstrip("# "))
        last = " ".join(above) or last
        assert last, f"{name}.{field} needs a comment that says what it means"
        found[field] = last
    return found


def ranges(name: str) -> dict[str, str]:
    """What ``_between`` allows, by field."""
    found = {}
    for call in ast.walk(CLASSES[name][0]):
        match call:
            case ast.Call(func=ast.Name(id="_between"), args=[ast.Constant(value=str(field)), _, low, high]):
                least, most = (eval(ast.unparse(limit), vars(config)) for limit in (low, high))
                upto = "" if most is None else f" to {shown(field, most)}"
                found[field] = f"{shown(field, least)}{upto}" if upto else f"at least {shown(field, least)}"
            case _:
                pass
    return found


def accepted(name: str, field: str, annotation: str, limits: str) -> str:
    """What a caller may write."""
    optional = annotation.endswith(" | None")
    annotation = annotation.removesuffix(" | None")
    choices = config._CHOICES.get(name)  # noqa: SLF001 - this script is the other half of that module.
    if annotation.startswith("Literal["):
        choices = tuple(ast.literal_eval(annotation.removeprefix("Literal")))
    text = ", ".join(f"`{choice}`" for choice in choices) if choices else TYPES.get(annotation, annotation)
    if name.endswith("_ms"):
        text = "milliseconds"
    elif field.endswith("_ms"):
        text = "duration"
    elif "bytes" in field:
        text = "size"
    return text + (f", {limits}" if limits else "") + (", `None`" if optional else "")


def shown(field: str, value: Any) -> str:
    """A default or a limit as one would write it."""
    if isinstance(value, msgspec.Struct):
        return f"`{type(value).__name__}()`"
    if isinstance(value, bool) or value is None or not isinstance(value, int):
        return f"`{value}`" if value != "" else "empty"
    units = UNITS if field.endswith("_ms") else BYTES if "bytes" in field else ()
    for unit, size in units:
        if value >= size and value % size == 0:
            return f"{value // size}{' ' * (units is BYTES)}{unit}"
    return f"{value:,}"


def linked(meaning: str, *, shorter: bool) -> str:
    """The comment, with the names of settings as code, and as they are written."""
    names = {name for _, _, settings, _ in PARTS for name, _, _ in fields(settings)}
    for name in sorted(names, key=len, reverse=True):
        if "_" in name:
            written = name.removesuffix("_ms") if shorter else name
            meaning = re.sub(rf"(?<![`\w]){name}(?![`\w])", f"`{written}`", meaning)
    return re.sub(r'"([^"]+)"', r"`\1`", meaning).replace("|", "\\|")


def example() -> str:
    """The commented file."""
    text = TOML_HEAD
    for section, settings in SECTIONS.items():
        text += f"\n[{section}]\n"
        last = ""
        meanings = {
            field: meaning
            for kind in settings.__mro__
            if kind.__name__ in CLASSES
            for field, meaning in comments(kind.__name__).items()
        }
        for setting in (setting for setting in SERVER.values() if setting.section == section):
            meaning = meanings[setting.field]
            if meaning != last:
                text += "\n" + textwrap.indent(textwrap.fill(in_toml(meaning), COLUMNS), "# ") + "\n"
            text += f"#{setting.name} = {toml_value(setting)}\n"
            last = meaning
    return text


def in_toml(meaning: str) -> str:
    """A comment in the words of the file."""
    meaning = re.sub(r"\bNone\b", '"none"', meaning)
    meaning = re.sub(r"\bFalse\b", "false", meaning)
    return re.sub(r"(\w)_ms\b", r"\1", meaning)


def toml_value(setting: Setting) -> str:
    """The default of a setting, as one writes it in the file."""
    text = setting.show(setting.default)
    plain = setting.kind is bool or (int in (setting.kind, *get_args(setting.kind)) and text.isdecimal())
    return text if plain else f'"{text}"'


if __name__ == "__main__":
    PAGE.write_text(page())
    EXAMPLE.write_text(example())
