"""One setting as DescribeConfigs reports it."""

from typing import Final

from penstock.wire.kafka.messages.admin.configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

OF_TOPIC: Final = 1  # Kafka's numbers for where a setting comes from.
OF_FILE: Final = 4
OF_DEFAULT: Final = 5
OF_GROUP: Final = 8


def config_entry(name: str, value: str, kind: int, source: int, words: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=source,
        config_type=kind,
        documentation=words,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)],
    )
