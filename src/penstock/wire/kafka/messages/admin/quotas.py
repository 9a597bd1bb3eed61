"""How much: DescribeClientQuotas, AlterClientQuotas."""

from typing import ClassVar

from penstock.wire.kafka.fields import Bool, Float64, Int8, Int16, Int32, KafkaMessage, Part, String


class QuotaComponent(Part):
    """Filter components to apply to quota entities."""

    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


class DescribeClientQuotasRequest(KafkaMessage):
    KEY: ClassVar = 48
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 1

    components: list[QuotaComponent] = []
    strict: Bool = False


class QuotaEntity(Part):
    entity_type: String = ""
    entity_name: String | None = ""


class QuotaValue(Part):
    """The quota values for the entity."""

    key: String = ""
    value: Float64 = 0.0


class QuotaEntry(Part):
    entity: list[QuotaEntity] = []
    values: list[QuotaValue] = []


class DescribeClientQuotasResponse(KafkaMessage):
    KEY: ClassVar = 48
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 1

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[QuotaEntry] | None = []


class QuotaOperation(Part):
    """An individual quota configuration entry to alter."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class QuotaAlteration(Part):
    """The quota configuration entries to alter."""

    entity: list[QuotaEntity] = []
    ops: list[QuotaOperation] = []


class AlterClientQuotasRequest(KafkaMessage):
    KEY: ClassVar = 49
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 1

    entries: list[QuotaAlteration] = []
    validate_only: Bool = False


class QuotaAlterationResult(Part):
    """The quota configuration entries to alter."""

    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[QuotaEntity] = []


class AlterClientQuotasResponse(KafkaMessage):
    KEY: ClassVar = 49
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 1

    throttle_time_ms: Int32 = 0
    entries: list[QuotaAlterationResult] = []
