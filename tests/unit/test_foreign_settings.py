"""Configuration in YAML and JSON, GoQueue's file and GoMQ's environment: read as ours, or refused."""

import json

import pytest

from penstock.config.loading import Loaded, load
from penstock.errors import InvalidConfiguration

# The example of GoQueue's documentation, unchanged.
GOQUEUE = """\
broker:
  nodeId: "node-1"
  dataDir: "/var/lib/goqueue"
  
  listeners:
    http: ":8080"
    grpc: ":9000"
    
defaults:
  topic:
    partitions: 6
    replicationFactor: 2
    retention:
      hours: 168          # 7 days
      bytes: 10737418240  # 10GB
      
  delivery:
    visibilityTimeout: 30s
    maxRetries: 3
    dlqEnabled: true
    
  delay:
    enabled: true
    maxDelay: 168h        # 7 days max delay
    
  priority:
    lanes: 3              # high, normal, low
"""  # noqa: W293
TOML = '[server]\ndata = "d"\n[topic]\nretention = "14d"\npartitions = 3\n[listen]\nkafka = "off"'
TABLES = {
    "server": {"data": "d"},
    "topic": {"retention": "14d", "partitions": 3},
    "listen": {"kafka": "off"},
}
YAML = "server:\n  data: d\ntopic:\n  retention: 14d\n  partitions: 3\nlisten: {kafka: 'off'}"


def problems(text: str = "", file: str = "f.yaml", **environ: str) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refusal:
        load(text=text, file=file, environ=environ)
    lines: list[str] = refusal.value.facts["problems"].splitlines()
    return [line.strip() for line in lines]


def changed(found: Loaded) -> dict[str, tuple[str, str]]:
    return {key: (value, origin) for key, value, origin in found.rows() if origin != "default"}


def test_toml_yaml_and_json_share_one_schema() -> None:
    toml = load(text=TOML, file="penstock.toml").config

    assert load(text=YAML, file="penstock.yaml").config == toml
    assert load(text=YAML, file="penstock.YML").config == toml
    assert load(text=json.dumps(TABLES, indent=2), file="penstock.json").config == toml
    assert load(text="", file="empty.yaml").config == load().config


def test_goqueues_file_works_unchanged() -> None:
    found = load(text=GOQUEUE, file="config.yaml")

    rows = changed(found)
    grpc = rows.pop("listen.grpc", None)
    assert rows == {
        "server.data": ("/var/lib/goqueue", "config.yaml, line 3"),
        "listen.http": ("127.0.0.1:8080", "config.yaml, line 6"),
        "topic.partitions": ("6", "config.yaml, line 11"),
        "topic.retention": ("7d", "config.yaml, line 14"),
        "topic.retention_bytes": ("10GiB", "config.yaml, line 15"),
        "topic.delay_max": ("7d", "config.yaml, line 24"),
        "group.visibility_timeout": ("30s", "config.yaml, line 18"),
        "group.max_attempts": ("4", "config.yaml, line 19"),
        "group.dead_letter": ("true", "config.yaml, line 20"),
    }
    unused = {name: origin for name, _, origin in found.unused()}
    if grpc is None:
        assert unused.pop("broker.listeners.grpc") == "config.yaml, line 7"
    assert unused == {
        "broker.nodeId": "config.yaml, line 2",
        "defaults.topic.replicationFactor": "config.yaml, line 12",
        "defaults.delay.enabled": "config.yaml, line 23",
        "defaults.priority.lanes": "config.yaml, line 27",
    }
    assert all(reason.startswith("no effect: ") for _, reason, _ in found.unused())


@pytest.mark.parametrize(
    ("switches", "host"),
    [
        ({}, "127.0.0.1"),
        ({"PENSTOCK_SECURITY__INSECURE": "true"}, "0.0.0.0"),
        ({"PENSTOCK_SECURITY__AUTHENTICATION": "true"}, "0.0.0.0"),
    ],
)
def test_an_address_without_a_host_is_open_to_others_only_where_that_is_safe_or_allowed(
    switches: dict[str, str], host: str
) -> None:
    found = load(text='listen: {http: ":8088"}', file="c.yaml", environ=switches)

    assert found.config.listen.http == f"{host}:8088"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("  priority: {lanes: 9}", "defaults.priority.lanes cannot be 9: there are 5 lanes"),
        ("  delay: {enabled: false}", "defaults.delay.enabled cannot be False: delays cannot be turned off"),
        ("  delivery: {maxRetries: many}", "defaults.delivery.maxRetries cannot be 'many'"),
        ("  delivery: {visibilityTimeout: soon}", "defaults.delivery.visibilityTimeout cannot be 'soon'"),
        ("  delivery: {retries: 3}", "there is no setting defaults.delivery.retries"),
    ],
)
def test_what_cannot_be_done_is_a_problem_with_its_line(line: str, problem: str) -> None:
    [found] = problems(f"defaults:\n{line}")

    assert found.startswith(f"f.yaml, line 2: {problem}")


def test_a_problem_in_json_has_its_line() -> None:
    [found] = problems('{"topic": {\n"retention": "7d",\n"retentoin": "7d"}}', "f.json")

    assert found.startswith("f.json, line 3: there is no setting topic.retentoin")


@pytest.mark.parametrize(
    ("text", "file", "why"),
    [
        ("a: &a [1]\nb: *a", "f.yaml", "aliases"),
        ("- 1\n- 2", "f.yaml", "sections"),
        ("a: [", "f.yaml", "f.yaml: while parsing"),
        ("a: !!python/object/apply:os.system [ls]", "f.yaml", "could not determine a constructor"),
        ("auth:\n  a: 1\nx: 2\nauth:\n  b: 1", "f.yaml", "f.yaml: auth is there twice, at lines 1 and 4"),
        ("auth:\n  a: 1\n  a: 2", "f.yaml", "f.yaml: auth.a is there twice, at lines 2 and 3"),
        (
            '{"auth": {"a": 1},\n "auth": {"b": 1}}',
            "f.json",
            "f.json: auth is there twice, at lines 1 and 2;",
        ),
        (
            '{"auth":\n {"a": "{", "\\u0061": 2}}',
            "f.json",
            "f.json: auth.a is there twice, at lines 2 and 2;",
        ),
        ("[auth]\na = 1\n[auth]\nb = 1", "f.toml", "twice (at line 3"),
        ("{", "f.json", "f.json: Expecting property name"),
        ("[1]", "f.json", "sections"),
        ("[" * 100_000, "f.json", "f.json: "),
        ("a: " + "{a: " * 30 + "1" + "}" * 30, "f.yaml", "nested deeper"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem(text: str, file: str, why: str) -> None:
    [found] = problems(text, file)

    assert why in found


def test_gomqs_variables_are_aliases_below_ours() -> None:
    found = load(
        environ={
            "GOMQ_STORAGE": "hybrid",
            "GOMQ_DATA_DIR": "./gomq",
            "GOMQ_DEFAULT_TTL": "24h",
            "GOMQ_MAX_MESSAGE_SIZE": "1MB",
            "GOMQ_MAX_QUEUE_DEPTH": "100000",
            "GOMQ_MAX_RETRIES": "3",
            "GOMQ_LISTEN_ADDR": ":5672",
            "PENSTOCK_SERVER__DATA": "ours",
        }
    )

    assert changed(found) == {
        "server.data": ("ours", "PENSTOCK_SERVER__DATA"),
        "listen.native": ("127.0.0.1:5672", "GOMQ_LISTEN_ADDR"),
        "topic.durability": ("os", "GOMQ_STORAGE"),
        "topic.ttl": ("1d", "GOMQ_DEFAULT_TTL"),
        "topic.message_bytes_max": ("1000000", "GOMQ_MAX_MESSAGE_SIZE"),
        "topic.depth_max": ("100000", "GOMQ_MAX_QUEUE_DEPTH"),
        "group.max_attempts": ("4", "GOMQ_MAX_RETRIES"),
    }


@pytest.mark.parametrize(
    ("storage", "durability"), [("memory", "memory"), ("disk", "fsync"), ("hybrid", "os")]
)
def test_gomqs_storage_is_a_durability(storage: str, durability: str) -> None:
    assert load(environ={"GOMQ_STORAGE": storage}).config.topic.durability == durability


def test_a_variable_of_gomq_that_it_has_not_is_a_problem() -> None:
    assert problems(GOMQ_STORAGE="tape", GOMQ_SPEED="11") == [
        "GOMQ_SPEED: GoMQ has no such variable; it has GOMQ_STORAGE, GOMQ_DATA_DIR, GOMQ_DEFAULT_TTL, "
        "GOMQ_MAX_MESSAGE_SIZE, GOMQ_MAX_QUEUE_DEPTH, GOMQ_MAX_RETRIES, GOMQ_LISTEN_ADDR",
        "GOMQ_STORAGE: GOMQ_STORAGE cannot be 'tape': use one of memory, disk, hybrid",
    ]
