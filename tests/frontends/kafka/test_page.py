"""docs/protocols/kafka.md says what is there."""

import re
from pathlib import Path

from penstock.frontends.kafka.apis import APIS
from penstock.frontends.kafka.configs.group_configs import GROUP_CONFIGS
from penstock.frontends.kafka.configs.stored_configs import STORED
from penstock.frontends.kafka.configs.topic_configs import CONFIGS
from penstock.wire.kafka.codes import Code

PAGE = (Path(__file__).parents[3] / "docs" / "protocols" / "kafka.md").read_text()


def versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def test_every_api_is_in_the_page_with_its_versions() -> None:
    told = re.findall(r"^\| (\d+) \| (\w+) \| ([\d-]+) \|", PAGE, re.MULTILINE)

    assert told == [
        (str(key), api.request.__name__.removesuffix("Request"), versions(*api.offered))
        for key, api in sorted(APIS.items())
    ]


def test_every_setting_is_in_the_page() -> None:
    section = PAGE.partition("## Topics and their settings")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `([a-z.]+)` \|", section, re.MULTILINE)

    assert told == sorted(CONFIGS.keys() - STORED.keys())
    stored = re.findall(r"`([a-z0-9.]+)`", section.partition("or not at all:")[2].partition("\n\n")[0])
    assert stored == [*sorted(STORED), "remote.storage.enable", "false"]


def test_every_setting_of_a_group_is_in_the_page() -> None:
    section = PAGE.partition("### Settings of groups")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `([a-z.]+)` \|", section, re.MULTILINE)

    assert told == sorted(GROUP_CONFIGS)


def test_codes_are_kafkas() -> None:
    assert (Code.OFFSET_OUT_OF_RANGE, Code.INVALID_RECORD, Code.UNKNOWN_TOPIC_ID) == (1, 87, 100)
