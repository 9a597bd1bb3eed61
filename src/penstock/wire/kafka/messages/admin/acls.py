"""Who may do what: DescribeAcls, CreateAcls, DeleteAcls."""

from penstock.wire.kafka.fields import Int8, Int16, Int32, KafkaMessage, Part, String, api


@api(29, versions=(1, 3), flexible=2)
class DescribeAclsRequest(KafkaMessage):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(Part):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(Part):
    """Each Resource that is referenced in an ACL."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: list[AclDescription] = []


@api(29, versions=(1, 3), flexible=2)
class DescribeAclsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = []


class AclCreation(Part):
    """The ACLs that we want to create."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@api(30, versions=(1, 3), flexible=2)
class CreateAclsRequest(KafkaMessage):
    creations: list[AclCreation] = []


class AclCreationResult(Part):
    """The results for each ACL creation."""

    error_code: Int16 = 0
    error_message: String | None = ""


@api(30, versions=(1, 3), flexible=2)
class CreateAclsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = []


class DeleteAclsFilter(Part):
    """The filters to use when deleting ACLs."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@api(31, versions=(1, 3), flexible=2)
class DeleteAclsRequest(KafkaMessage):
    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(Part):
    """The ACLs which matched this filter."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Part):
    """The results for each filter."""

    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


@api(31, versions=(1, 3), flexible=2)
class DeleteAclsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
