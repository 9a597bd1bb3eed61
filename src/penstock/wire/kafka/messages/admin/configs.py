"""Settings of topics, groups and the broker: DescribeConfigs, AlterConfigs, ListConfigResources."""

from typing import Annotated

from penstock.wire.kafka.fields import Bool, Int8, Int16, Int32, KafkaMessage, Part, String, Versions, api


class DescribeConfigsResource(Part):
    """The resources whose configurations we want to describe."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = []


@api(32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest(KafkaMessage):
    resources: list[DescribeConfigsResource] = []
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, Versions(3)] = False


class DescribeConfigsSynonym(Part):
    """The synonyms for this configuration key."""

    name: String = ""
    value: String | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Part):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = []
    config_type: Annotated[Int8, Versions(3)] = 0
    documentation: Annotated[String | None, Versions(3)] = ""


class DescribeConfigsResult(Part):
    """The results for each resource."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = []


@api(32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []


class AlterConfigsRequestAlterableConfig(Part):
    name: String = ""
    value: String | None = ""


class AlterConfigsRequestAlterConfigsResource(Part):
    """The updates for each resource."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterConfigsRequestAlterableConfig] = []


@api(33, versions=(0, 2), flexible=2)
class AlterConfigsRequest(KafkaMessage):
    resources: list[AlterConfigsRequestAlterConfigsResource] = []
    validate_only: Bool = False


class AlterConfigsResourceResponse(Part):
    """The responses for each resource."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@api(33, versions=(0, 2), flexible=2)
class AlterConfigsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


class IncrementalAlterConfigsRequestAlterableConfig(Part):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


class IncrementalAlterConfigsRequestAlterConfigsResource(Part):
    """The incremental updates for each resource."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[IncrementalAlterConfigsRequestAlterableConfig] = []


@api(44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest(KafkaMessage):
    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource] = []
    validate_only: Bool = False


@api(44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


@api(74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest(KafkaMessage):
    resource_types: Annotated[list[Int8], Versions(1)] = []


class ConfigResource(Part):
    """Each config resource in the response."""

    resource_name: String = ""
    resource_type: Annotated[Int8, Versions(1)] = 16


@api(74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = []
