"""Passwords of users, for SCRAM: DescribeUserScramCredentials, AlterUserScramCredentials."""

from typing import ClassVar

from penstock.wire.kafka.fields import Bytes, Int8, Int16, Int32, KafkaMessage, Part, String


class UserName(Part):
    """The users to describe, or null/empty to describe all users."""

    name: String = ""


class DescribeUserScramCredentialsRequest(KafkaMessage):
    KEY: ClassVar = 50
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

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


class DescribeUserScramCredentialsResponse(KafkaMessage):
    KEY: ClassVar = 50
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

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


class AlterUserScramCredentialsRequest(KafkaMessage):
    KEY: ClassVar = 51
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Part):
    """The results for deletions and alterations, one per affected user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class AlterUserScramCredentialsResponse(KafkaMessage):
    KEY: ClassVar = 51
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []
