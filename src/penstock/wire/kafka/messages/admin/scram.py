"""Passwords of users, for SCRAM: DescribeUserScramCredentials, AlterUserScramCredentials."""

from penstock.wire.kafka.fields import Bytes, Int8, Int16, Int32, KafkaMessage, Part, String, api


class UserName(Part):
    """The users to describe, or null/empty to describe all users."""

    name: String = ""


@api(50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest(KafkaMessage):
    users: list[UserName] | None = []


class CredentialInfo(Part):
    """The mechanism and related information associated with the user's SCRAM credentials."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Part):
    """The results for descriptions, one per user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: list[CredentialInfo] = []


@api(50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[DescribeUserScramCredentialsResult] = []


class ScramCredentialDeletion(Part):
    """The SCRAM credentials to remove."""

    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Part):
    """The SCRAM credentials to update/insert."""

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@api(51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest(KafkaMessage):
    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Part):
    """The results for deletions and alterations, one per affected user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@api(51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []
