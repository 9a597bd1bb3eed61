"""docs/pipelines.md: it names every pipeline and every setting, and its example is the one that is tested."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from penstock.spark import pipelines
from penstock.spark.pipelines.rejects import TransformSource
from penstock.spark.pipelines.run.settings import RunSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pipelines.md").read_text()
SECTIONS = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def settings_in(section: str) -> set[str]:
    """What the tables of a section name in their first column."""
    cells = re.findall(r"^\| ([^|]*) \|", SECTIONS[section], re.MULTILINE)
    return {name.strip("[]").partition(".")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def names_of(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name.removesuffix("_ms") for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("name", pipelines.PIPELINES)
def test_the_page_has_every_setting_of_a_pipeline(name: str) -> None:
    section = name.replace("_", " ")

    assert names_of(pipelines.load(name).Settings) - settings_in(section) == set()
    assert f"[`{name}`](#{section.replace(' ', '-')})" in PAGE


def test_the_page_has_what_all_of_them_have_in_common() -> None:
    assert names_of(RunSettings) - settings_in("Running them") == set()
    assert names_of(TransformSource) - settings_in("transform") == set()


def test_the_example_of_the_page_is_the_one_that_is_tested() -> None:
    [shown] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    whole = (ROOT / "examples" / "pipelines" / "clicks_per_minute.toml").read_text()

    assert tomllib.loads(shown) == tomllib.loads(whole)
