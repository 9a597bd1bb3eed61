"""The configuration of a server: file, environment and flags, and every problem with its place."""

import pytest

from penstock.config.files import key_lines
from penstock.config.loading import Loaded, load
from penstock.config.server import ServerConfig
from penstock.errors import InvalidConfiguration

FILE = "penstock.toml"


def loaded(text: str = "", flags: dict[str, str] | None = None, **environ: str) -> Loaded:
    return load(text=text, file=FILE, environ=environ, flags=flags or {})


def problems(text: str = "", flags: dict[str, str] | None = None, **environ: str) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refusal:
        loaded(text, flags, **environ)
    lines: list[str] = refusal.value.facts["problems"].splitlines()
    return [line.strip() for line in lines]


def test_nothing_given_is_all_defaults() -> None:
    found = loaded()

    assert found.config == ServerConfig()
    assert found.config.topic.partitions == 6
    assert {origin for _, _, origin in found.rows()} == {"default"}


def test_the_environment_outdoes_the_file_and_a_flag_outdoes_both() -> None:
    text = '[server]\ndata = "a"\n\n[topic]\nretention = "14d"\npartitions = 3'

    found = loaded(
        text, {"server.data": "c"}, PENSTOCK_SERVER__DATA="b", PENSTOCK_TOPIC__PARTITIONS="4", HOME="/"
    )

    origins = {key: (value, origin) for key, value, origin in found.rows() if origin != "default"}
    assert origins == {
        "server.data": ("c", "--data"),
        "topic.retention": ("14d", "penstock.toml, line 5"),
        "topic.partitions": ("4", "PENSTOCK_TOPIC__PARTITIONS"),
    }
    assert found.config.server.data == "c"
    assert found.config.topic.partitions == 4


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ('topic.retention = "7d"', "retention_ms", 7 * 86_400_000),
        ("topic.retention = 1.5", "retention_ms", 1500),
        ('topic.retention = "none"', "retention_ms", None),
        ('topic.retention_bytes = "10GiB"', "retention_bytes", 10 * 2**30),
        ("topic.retention_bytes = 4096", "retention_bytes", 4096),
        ('topic.message_bytes_max = "1 MB"', "message_bytes_max", 1_000_000),
        ("topic.depth_max = 100_000", "depth_max", 100_000),
        ("topic.compact = true", "compact", True),
        ('topic.durability = "memory"', "durability", "memory"),
    ],
)
def test_a_value_may_be_written_as_people_write_it(written: str, field: str, value: object) -> None:
    assert getattr(loaded(written).config.topic, field) == value


@pytest.mark.parametrize(
    ("variable", "text", "section", "field", "value"),
    [
        ("PENSTOCK_TOPIC__RETENTION", "90", "topic", "retention_ms", 90_000),
        ("PENSTOCK_TOPIC__RETENTION_BYTES", "4096", "topic", "retention_bytes", 4096),
        ("PENSTOCK_TOPIC__DEPTH_MAX", "100_000", "topic", "depth_max", 100_000),
        ("PENSTOCK_TOPIC__COMPACT", "yes", "topic", "compact", True),
        ("PENSTOCK_GROUP__DEAD_LETTER", "false", "group", "dead_letter", False),
        ("PENSTOCK_GROUP__BACKOFF", "1s, 10s", "group", "backoff", "fixed:1000,10000"),
        ("PENSTOCK_GROUP__BACKOFF", "exponential", "group", "backoff", "exponential:1000:2:60000:0.2"),
        ("PENSTOCK_GROUP__START", "latest", "group", "start", "latest"),
        ("PENSTOCK_GROUP__START", "17", "group", "start", "17"),
        ("PENSTOCK_LISTEN__NATIVE", "off", "listen", "native", "off"),
    ],
)
def test_in_the_environment_everything_is_text(
    variable: str, text: str, section: str, field: str, value: object
) -> None:
    config = load(environ={variable: text}).config

    assert getattr(getattr(config, section), field) == value


def test_what_is_shown_reads_as_the_same_again() -> None:
    text = """
    topic.retention = "none"
    topic.ttl = "90s"
    group.backoff = ["1s", "250ms"]
    group.start = "2026-11-14T15:00:00Z"
    limits.frame_bytes_max = 20_000_000
    listen.text = 0
    """
    found = loaded(text)

    again = load(
        environ={f"PENSTOCK_{key.replace('.', '__').upper()}": text for key, text, _ in found.rows()}
    )

    assert again.config == found.config


def test_all_problems_are_told_at_once_each_with_its_place() -> None:
    text = '[topic]\nretentoin = "7d"\npartitions = 0\n[listen]\ntext = "host:"'

    assert problems(text, {"listen.kafka": "here"}, PENSTOCK_GROUP__KIND="heap") == [
        "penstock.toml, line 2: there is no setting topic.retentoin; did you mean topic.retention?",
        "penstock.toml, line 3: topic.partitions cannot be 0: it must be from 1 to 10000",
        "penstock.toml, line 5: listen.text cannot be 'host:': "
        "write HOST:PORT such as 127.0.0.1:7070 (0.0.0.0 is every interface), or 'off'",
        "PENSTOCK_GROUP__KIND: group.kind cannot be 'heap': use one of queue, stream",
        "--kafka: listen.kafka cannot be 'here': "
        "write HOST:PORT such as 127.0.0.1:7070 (0.0.0.0 is every interface), or 'off'",
    ]


def test_a_value_that_is_replaced_is_checked_all_the_same() -> None:
    assert len(problems("server.stop_timeout = 'soon'", PENSTOCK_SERVER__STOP_TIMEOUT="5s")) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x =", "penstock.toml: Invalid value (at end of document)"),
        ("data = 'x'", "data is in no section"),
        ("[topics]\nretention = 1", "did you mean topic.retention?"),
        ("[topics]", "there is no section topics; the sections are server,"),
        ("[topic]\nqqqq = 1", "section topic has partitions, durability,"),
        ("[qqqq]\nzzzz = 1", "there is no setting qqqq.zzzz; the sections are"),
        ("[topic]\nvisibility_timeout = 5", "did you mean group.visibility_timeout?"),
        ("[broker]\nmaintenance_ms = 5", "did you mean broker.maintenance?"),
        ("[broker]\nclose_timeout = 5", "there is no setting broker.close_timeout"),
        ("[topic.orders]\nretention = 1", "there is no setting topic.orders"),
        ("[topic]\ncompact = 'perhaps'", "it must be true or false"),
        ("[topic]\npartitions = 'six'", "it must be a whole number"),
        ("[topic]\npartitions = true", "it must be a whole number"),
        ("[topic]\nmessage_bytes_max = 'big'", "a size is a number of bytes or text like"),
        ("[topic]\nretention = 'none of it'", "write it like '250ms'"),
        (
            "[topic]\ndead_letter_topic = 'a/b'",
            "dead letter topic name 'a/b' is not allowed",
        ),
        ("[group]\nvisibility_timeout = '13h'", "it must be from 1ms to 12h"),
        ("[group]\nbackoff = 'slowly'", "group.backoff cannot be 'slowly'"),
        ("[group]\nbackoff = 'exponential:soon'", "group.backoff cannot be 'exponential:soon'"),
        ("[server]\nstop_timeout = 0", "server.stop_timeout cannot be 0: it must be at least 1ms"),
        ("[server]\ndata = 3.5", "it must be text"),
        ("[server]\ndata = ''", "name a directory, or ':memory:'"),
        ("[server]\nlog_level = 'loud'", "use one of debug, info, warning, error"),
        ("[listen]\nnative = '127.0.0.1:65536'", "write HOST:PORT"),
        ("[limits]\nconnections_max = 0", "at least 1"),
    ],
)
def test_each_kind_of_mistake_has_its_words(text: str, sentence: str) -> None:
    [problem] = problems(text)

    assert sentence in problem


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("listen.text = 7070", "listen.native and listen.text are the same address"),
        (
            "listen.native = 'off'\nlisten.text = 'off'\nlisten.status = 'off'\nlisten.http = 'off'\n"
            "listen.kafka = 'off'",
            "every listener is off",
        ),
        ("topic.message_bytes_max = '32MiB'", "no frame could hold the largest message"),
        ("limits.publish_bytes_max = 5", "limits.frame_bytes_max (default) is larger than limits.publish"),
        ("broker.in_flight_max = 5", "no consumer may hold so many"),
        (
            "server.data = ':memory:'\ntopic.durability = 'os'",
            "must be 'memory', since server.data",
        ),
        ("group.kind = 'stream'\ngroup.ordered = true", "section group: ordered cannot be True"),
    ],
)
def test_what_is_wrong_only_together_is_found_too(text: str, sentence: str) -> None:
    [problem] = problems(text)

    assert sentence in problem


def test_two_listeners_may_both_take_a_free_port() -> None:
    assert loaded("listen.text = 0\nlisten.native = 0").config.listen.native == "0"


def test_a_variable_with_one_underscore_too_few_is_not_passed_over() -> None:
    [problem] = problems(PENSTOCK_TOPIC_RETENTION="7d")

    assert problem.endswith(
        "the section is followed by two underscores; did you mean PENSTOCK_TOPIC__RETENTION?"
    )


def test_other_variables_of_penstock_are_no_settings() -> None:
    found = loaded(PENSTOCK_SERVER="penstock://127.0.0.1:7070", PENSTOCK_CONFIG="x", PENSTOCK_BUILD="y")

    assert found.origins == {}


def test_keys_are_found_in_the_text_of_a_file() -> None:
    text = 'a.b = 1\n# c = 2\n[topic]\n  retention = "7d"\n"quoted" = 1\n'
    text += '[ group ]\nbackoff = [\n  "1s",\n]\nkind = "x"'

    assert key_lines(text) == {
        "a.b": 1,
        "topic": 3,
        "topic.retention": 4,
        "topic.quoted": 5,
        "group": 6,
        "group.backoff": 7,
        "group.kind": 10,
    }


def test_the_name_that_a_setting_had_before_is_read_as_the_new_one() -> None:
    by_file = load(text="[kafka]\nauto_create_topics = false\n", file="old.toml")
    by_variable = load(environ={"PENSTOCK_KAFKA__AUTO_CREATE_TOPICS": "off"})
    both = load(text="[kafka]\nauto_create_topics = false\n", environ={"PENSTOCK_TOPIC__AUTO_CREATE": "on"})

    assert [found.config.topic.auto_create for found in (by_file, by_variable, both)] == [False, False, True]
    assert by_file.origins["topic.auto_create"] == "old.toml, line 2"
    with pytest.raises(InvalidConfiguration, match="auto_create_topics cannot be 'maybe'"):
        load(environ={"PENSTOCK_KAFKA__AUTO_CREATE_TOPICS": "maybe"})


@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        ({"cluster.name": "shop"}, "cluster.store (--store URL) and cluster.node (--node N)"),
        ({"cluster.name": "shop", "cluster.store": "file:///s"}, "cluster.node (--node N)"),
        ({"cluster.store": "file:///s", "cluster.node": "1"}, "cluster.name (--cluster NAME)"),
    ],
)
def test_an_incomplete_cluster_says_what_is_missing(flags: dict[str, str], missing: str) -> None:
    assert problems(flags=flags) == [f"a node of a cluster needs a name, a store and a number; set {missing}"]


def test_a_node_of_a_cluster_needs_a_directory() -> None:
    whole = {"cluster.name": "shop", "cluster.store": "file:///s", "cluster.node": "1"}

    assert loaded(flags=whole).config.cluster.node == 1
    assert problems(flags={**whole, "server.data": ":memory:"}) == [
        "a node of a cluster needs a directory for its cache: server.data must not be ':memory:'"
    ]
    assert problems(flags={**whole, "cluster.node": "0x1"})[0].startswith("--node: ")
