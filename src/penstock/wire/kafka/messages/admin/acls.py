"""Who may do what: DescribeAcls, CreateAcls, DeleteAcls."""

from typing import ClassVar

from penstock.wire.kafka.fields import Int8, Int16, Int32, KafkaMessage, Part, String


class DescribeAclsRequest(KafkaMessage):
    KEY: ClassVar = 29
    VERSIONS: ClassVar = (1, 3)
    FLEXIBLE: ClassVar = 2

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


class DescribeAclsResponse(KafkaMessage):
    KEY: ClassVar = 29
    VERSIONS: ClassVar = (1, 3)
    FLEXIBLE: ClassVar = 2

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


class CreateAclsRequest(KafkaMessage):
    KEY: ClassVar = 30
    VERSIONS: ClassVar = (1, 3)
    FLEXIBLE: ClassVar = 2

    creations: list[AclCreation] = []


class AclCreationResult(Part):
    """The results for each ACL creation."""

    error_code: Int16 = 0
    error_message: String | None = ""


class CreateAclsResponse(KafkaMessage):
    KEY: ClassVar = 30
    VERSIONS: ClassVar = (1, 3)
    FLEXIBLE: ClassVar = 2

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


class DeleteAclsRequest(KafkaMessage):
    KEY: ClassVar = 31
    VERSIONS: ClassVar = (1, 3)
    FLEXIBLE: ClassVar = 2

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


class DeleteAclsResponse(KafkaMessage):
    KEY: ClassVar = 31
    VERSIONS: ClassVar = (1, 3)
    FLEXIBLE: ClassVar = 2

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []
