"""Settings of topics, groups and the broker.

DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

A topic's settings can be changed (``topic_configs``), and a group's (``group_configs``); the broker's are
those of its configuration, and can be read."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.config.broker import TopicSettings
from penstock.errors import InvalidValue, PenstockError, TopicNotFound
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.configs.entries import OF_DEFAULT, OF_FILE, OF_TOPIC, config_entry
from penstock.frontends.kafka.configs.group_configs import GROUP_CONFIGS, alter_group, group_config_entries
from penstock.frontends.kafka.configs.stored_configs import BOOLEAN, INT, LIST, LONG, STRING
from penstock.frontends.kafka.configs.topic_configs import CONFIGS, options_of
from penstock.frontends.kafka.errors import code_of, topic_code, words_of
from penstock.frontends.kafka.groups.membership import group_code
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TOPIC: Final = 2  # Kafka's numbers for what may have settings.
BROKER: Final = 4
LOGGERS: Final = 8
METRICS: Final = 16
GROUP: Final = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NO_VALUE: Final = "A setting needs a value."
KINDS: Final = frozenset({TOPIC, BROKER, LOGGERS, METRICS, GROUP})


def config_entries(settings: TopicSettings, defaults: TopicSettings) -> list[DescribeConfigsResourceResult]:
    """All settings of a topic, in Kafka's names."""
    entries = []
    for name, config in sorted(CONFIGS.items()):
        value, default = config.read(settings), config.read(defaults)
        is_default = value == default and name not in settings.kafka_configs
        source = OF_DEFAULT if is_default else OF_TOPIC
        entries.append(config_entry(name, value, config.kind, source, config.words))
    return entries


def _broker_configs(call: KafkaCall[Any]) -> list[DescribeConfigsResourceResult]:
    """The broker settings that tools ask for."""
    defaults, shared = call.shared.defaults, call.shared
    node = call.owners.node
    host, port = call.session.brokers[node]
    facts = (
        ("advertised.listeners", LIST, f"PLAINTEXT://{host}:{port}"),
        ("auto.create.topics.enable", BOOLEAN, str(shared.defaults.auto_create).lower()),
        ("broker.id", INT, str(node)),
        ("default.replication.factor", INT, "1"),
        ("group.initial.rebalance.delay.ms", INT, str(shared.settings.initial_rebalance_delay_ms)),
        ("log.cleanup.policy", STRING, CONFIGS["cleanup.policy"].read(defaults)),
        ("log.retention.bytes", LONG, CONFIGS["retention.bytes"].read(defaults)),
        ("log.retention.ms", LONG, CONFIGS["retention.ms"].read(defaults)),
        ("log.segment.bytes", INT, CONFIGS["segment.bytes"].read(defaults)),
        ("message.max.bytes", INT, CONFIGS["max.message.bytes"].read(defaults)),
        ("min.insync.replicas", INT, "1"),
        ("num.partitions", INT, str(defaults.partitions)),
        ("socket.request.max.bytes", INT, str(shared.limits.frame_bytes_max)),
    )
    return [
        DescribeConfigsResourceResult(
            name=name, value=value, read_only=True, config_source=OF_FILE, config_type=kind
        )
        for name, kind, value in facts
    ]


def describe_configs(call: KafkaCall[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_described(call, asked) for asked in call.request.resources])


def _described(
    call: KafkaCall[DescribeConfigsRequest], asked: DescribeConfigsResource
) -> DescribeConfigsResult:
    answer = DescribeConfigsResult(
        error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name
    )
    try:
        entries = _configs_of(call, asked.resource_type, asked.resource_name)
    except PenstockError as error:
        named = asked.resource_type == TOPIC and isinstance(error, TopicNotFound)
        code = topic_code(error, asked.resource_name) if named else _code(error, asked.resource_type)
        answer.error_code, answer.error_message = code, words_of(error)
        return answer
    wanted = asked.configuration_keys
    answer.configs = [each for each in entries if not wanted or each.name in wanted]
    for each in answer.configs:
        if not call.request.include_synonyms:
            each.synonyms = []
        if not call.request.include_documentation:
            each.documentation = None
    return answer


def _configs_of(call: KafkaCall[Any], kind: int, name: str) -> list[DescribeConfigsResourceResult]:
    if kind == TOPIC:
        return config_entries(call.operations.layout(name).settings, call.shared.defaults)
    if kind == BROKER and name in ("", str(call.owners.node)):
        call.operations.topics()  # Allowed for clients that may describe anything.
        return _broker_configs(call)
    if kind == GROUP:
        return group_config_entries(call, name)
    why = f"topics, groups and broker {call.owners.node} have settings"
    raise InvalidValue(name="resource", value=name, why=why)


async def alter_configs(call: KafkaCall[AlterConfigsRequest]) -> AlterConfigsResponse:
    """Replace settings; those that are not given are reset to the default."""
    answers = []
    words: str | None
    for asked in call.request.resources:
        kind, name = asked.resource_type, asked.resource_name
        wanted = dict.fromkeys(GROUP_CONFIGS if kind == GROUP else CONFIGS)
        wanted |= {config.name: config.value for config in asked.configs}
        if any(config.value is None for config in asked.configs):
            code, words = int(Code.INVALID_REQUEST), NO_VALUE
        else:
            code, words = await _altered(call, kind, name, wanted, call.request.validate_only)
        answers.append(AlterConfigsResourceResponse(code, words, asked.resource_type, asked.resource_name))
    return AlterConfigsResponse(responses=answers)


async def incremental_alter_configs(
    call: KafkaCall[IncrementalAlterConfigsRequest],
) -> IncrementalAlterConfigsResponse:
    answers = []
    words: str | None
    for asked in call.request.resources:
        try:
            entries = _configs_of(call, asked.resource_type, asked.resource_name)
            wanted = _changed(asked.configs, {each.name: each.value or "" for each in entries})
        except PenstockError as error:
            code, words = _code(error, asked.resource_type), words_of(error)
        else:
            kind, name = asked.resource_type, asked.resource_name
            code, words = await _altered(call, kind, name, wanted, call.request.validate_only)
        answers.append(AlterConfigsResourceResponse(code, words, asked.resource_type, asked.resource_name))
    return IncrementalAlterConfigsResponse(responses=answers)


def _changed(
    changes: Iterable[IncrementalAlterConfigsRequestAlterableConfig], entries: Mapping[str, str]
) -> dict[str, str | None]:
    """The new settings after a change of the current ones; None is the default."""
    wanted: dict[str, str | None] = {}
    for change in changes:
        name, value = change.name, change.value or ""
        if name in wanted:
            raise InvalidValue(name=name, value=value, why="it is changed twice")
        match change.config_operation:
            case op if op != DELETE and change.value is None:
                raise InvalidValue(name="resource", value=name, why=NO_VALUE)
            case op if op == SET:
                wanted[name] = value
            case op if op == DELETE:
                wanted[name] = None
            case op if op in (APPEND, SUBTRACT) and name == "cleanup.policy":
                words = dict.fromkeys(entries[name].split(","))
                for word in value.split(","):
                    words.pop(word, None) if op == SUBTRACT else words.setdefault(word)
                wanted[name] = ",".join(words)
            case _:
                raise InvalidValue(name=name, value=value, why="only a list can be added to, or taken from")
    return wanted


async def _altered(
    call: KafkaCall[Any], kind: int, name: str, wanted: Mapping[str, str | None], validate_only: bool
) -> tuple[int, str | None]:
    """Change a topic or a group; returns the error, if any."""
    try:
        if kind == GROUP:
            await alter_group(call, name, wanted, validate_only)
            return Code.NONE, None
        if kind != TOPIC:
            why = "topics and groups have settings that can be changed"
            raise InvalidValue(name="resource", value=name, why=why)
        before = call.operations.layout(name).settings.kafka_configs
        options = options_of(wanted, call.shared.defaults, before, call.accepts_replication)
        if not validate_only:
            await call.run(call.operations.alter_topic(name, options))
    except PenstockError as error:
        return _code(error, kind), words_of(error)
    return Code.NONE, None


def _code(error: PenstockError, kind: int) -> int:
    if isinstance(error, InvalidValue):
        return Code.INVALID_REQUEST if error.name == "resource" else Code.INVALID_CONFIG
    return group_code(error) if kind == GROUP else code_of(error)


def list_config_resources(call: KafkaCall[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
    """List what has settings; version 0 asks for client metrics, of which there are none."""
    wanted = set(call.request.resource_types or KINDS) if call.version else {METRICS}
    if not wanted <= KINDS:
        return ListConfigResourcesResponse(error_code=Code.UNSUPPORTED_VERSION)
    topics = call.operations.topics()
    found = [(TOPIC, name) for name in topics] + [(BROKER, str(call.owners.node))]
    found += [(GROUP, name) for name in call.operations.configured_groups()]
    return ListConfigResourcesResponse(
        config_resources=[ConfigResource(name, kind) for kind, name in found if kind in wanted]
    )


APIS = (
    Api(DescribeConfigsRequest, DescribeConfigsResponse, describe_configs),
    Api(AlterConfigsRequest, AlterConfigsResponse, alter_configs),
    Api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, incremental_alter_configs),
    Api(ListConfigResourcesRequest, ListConfigResourcesResponse, list_config_resources),
)
