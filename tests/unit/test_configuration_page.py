"""The page of settings, and the example file, are made from the settings, and say of each what it is."""

import re
import runpy
from pathlib import Path

import msgspec
import pytest

from penstock.config.broker import (
    BrokerConfig,
    GroupOptions,
    GroupSettings,
    TopicOptions,
    TopicSettings,
    settings_with,
)
from penstock.config.loading import SETTINGS, load
from penstock.config.server import LakeSettings, LimitSettings, ListenSettings, ServerConfig, ServerSettings

ROOT = Path(__file__).parents[2]
WRITER = runpy.run_path(str(ROOT / "scripts" / "configuration_page.py"))


def test_the_page_of_settings_is_up_to_date() -> None:
    """Run `make docs` when this fails."""
    assert (ROOT / "docs" / "configuration.md").read_text() == WRITER["page"]()


def test_the_example_file_is_up_to_date() -> None:
    """Run `make docs` when this fails."""
    assert (ROOT / "penstock.example.toml").read_text() == WRITER["example"]()


def test_the_example_file_has_every_setting_with_its_default() -> None:
    text = re.sub(r"^#(?=\w+ = )", "", (ROOT / "penstock.example.toml").read_text(), flags=re.MULTILINE)

    loaded = load(text=text, file="penstock.example.toml")

    assert loaded.config == ServerConfig()
    assert set(loaded.origins) == set(SETTINGS)


def test_the_page_has_every_variable_and_every_flag() -> None:
    page = WRITER["page"]()

    assert [setting.variable for setting in SETTINGS.values() if f"`{setting.variable}`" not in page] == []
    assert [setting.flag for setting in SETTINGS.values() if setting.flag not in page] == []


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("TopicOptions", TopicSettings),
        ("GroupOptions", GroupSettings),
        ("", BrokerConfig),
        ("", ServerSettings),
        ("", ListenSettings),
        ("", LimitSettings),
        ("", LakeSettings),
    ],
)
def test_every_setting_has_its_row_with_a_meaning(options: str, settings: type[msgspec.Struct]) -> None:
    rows = list(WRITER["entries"](options, settings.__name__))

    assert len(rows) == len(settings.__struct_fields__)
    assert all(value and default and meaning.endswith(".") for _, value, default, meaning, _ in rows)


@pytest.mark.parametrize(
    ("options", "settings"), [(TopicOptions, TopicSettings()), (GroupOptions, GroupSettings())]
)
def test_the_names_on_the_page_are_the_names_a_program_may_use(
    options: type, settings: TopicSettings | GroupSettings
) -> None:
    names = [row[0] for row in WRITER["entries"](options.__name__, type(settings).__name__)]

    assert sorted(names) == sorted(options.__annotations__)


def test_a_default_written_as_on_the_page_changes_nothing() -> None:
    rows = {row[0]: row[2] for row in WRITER["entries"]("TopicOptions", "TopicSettings")}

    changed = settings_with(
        TopicSettings(), {"retention": rows["retention"], "dedup_window": rows["dedup_window"]}
    )

    assert changed == TopicSettings()
