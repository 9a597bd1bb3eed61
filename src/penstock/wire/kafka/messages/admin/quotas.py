"""How much: DescribeClientQuotas, AlterClientQuotas."""

from penstock.wire.kafka.fields import Bool, Float64, Int8, Int16, Int32, KafkaMessage, Part, String, api


class QuotaComponent(Part):
    """Filter components to apply to quota entities."""

    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@api(48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest(KafkaMessage):
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


@api(48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse(KafkaMessage):
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


@api(49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest(KafkaMessage):
    entries: list[QuotaAlteration] = []
    validate_only: Bool = False


class QuotaAlterationResult(Part):
    """The quota configuration entries to alter."""

    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[QuotaEntity] = []


@api(49, versions=(0, 1), flexible=1)
class AlterClientQuotasResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    entries: list[QuotaAlterationResult] = []
