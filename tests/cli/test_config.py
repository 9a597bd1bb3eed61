"""``penstock config show``: every value, and where it is from."""

from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from penstock.config.loading import SETTINGS


def test_every_setting_is_shown_with_its_value_and_its_origin(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "penstock.toml").write_text('[topic]\nretention = "14d"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_GROUP__MAX_ATTEMPTS", "7")

    done = cli("config", "show", "--config", "penstock.toml")

    assert done.code == 0
    assert done.lines[0] == "setting value from"
    assert len(done.lines) == 1 + len(SETTINGS)
    assert "topic.retention 14d penstock.toml, line 2" in done.lines
    assert "group.max_attempts 7 PENSTOCK_GROUP__MAX_ATTEMPTS" in done.lines
    assert "topic.partitions 6 default" in done.lines


def test_passwords_of_stores_are_not_shown(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = "postgresql://anna:hidden@db.example.com/penstock?sslmode=require&sslpassword=hidden"
    (tmp_path / "penstock.toml").write_text(f'[cluster]\nname = "shop"\nnode = 1\nstore = "{store}"\n')

    done = cli("config", "show", "--changed", "-o", "json", "--config", str(tmp_path / "penstock.toml"))

    assert "postgresql://anna:***@db.example.com/penstock?sslmode=require&sslpassword=***" in done.out
    assert "hidden" not in done.out


def test_nothing_was_changed(cli: Cli) -> None:
    done = cli("config", "show", "--changed")

    assert (done.code, done.out) == (0, "")
    assert done.err == "no setting differs from its default\n"


def test_only_what_was_changed_as_json(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LIMITS__RESUME", "1500ms")

    done = cli("config", "show", "--changed", "-o", "json")

    assert done.documents == [
        {"key": "limits.resume", "value": "1500ms", "origin": "PENSTOCK_LIMITS__RESUME"}
    ]


def test_the_file_may_be_named_by_the_environment(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "penstock.toml").write_text("[topic]\npartitions = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_CONFIG", "penstock.toml")

    assert "topic.partitions 2 penstock.toml, line 2" in cli("config", "show", "--changed").lines


def test_a_configuration_with_problems_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOPIC__PARTITIONS", "0")

    done = cli("config", "show")

    assert (done.code, done.out) == (1, "")
    assert "PENSTOCK_TOPIC__PARTITIONS: topic.partitions cannot be '0'" in done.err


def test_a_file_that_is_no_text_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")

    done = cli("config", "show", "--config", str(tmp_path / "x.toml"))

    assert done.code == 1
    assert "x.toml: it is not UTF-8" in done.err


def test_names_of_other_systems_are_shown_with_their_origin(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "goqueue.yaml").write_text("broker:\n  nodeId: n1\n  dataDir: /queue\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOMQ_MAX_RETRIES", "3")

    done = cli("config", "show", "-config", "goqueue.yaml", "--changed", "-o", "json")

    assert done.documents == [
        {"key": "server.data", "value": "/queue", "origin": "goqueue.yaml, line 3"},
        {"key": "group.max_attempts", "value": "4", "origin": "GOMQ_MAX_RETRIES"},
        {
            "key": "broker.nodeId",
            "value": "no effect: a server alone has no number; nodes of a cluster have cluster.node",
            "origin": "goqueue.yaml, line 2",
        },
    ]
