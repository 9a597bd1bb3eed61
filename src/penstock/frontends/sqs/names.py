"""Names of queues, plain, in URLs and in ARNs.

    http://127.0.0.1:9324/123456789012/orders      the host is the one that the client used
    arn:aws:sqs:us-east-1:123456789012:orders      the region is the one that the client signed for

There is one account, and one namespace for all regions.  Of URLs and ARNs that clients send, only the name
is used, so those of another host, account or region are accepted.
"""

import re
from typing import Final

from penstock.frontends.sqs.errors import invalid, missing, no_queue

ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-1"  # Of a request that names none.
FIFO: Final = ".fifo"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
BAD_NAME: Final = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"


def check_name(name: str | None) -> str:
    """The name of a new queue."""
    if name is None:
        raise missing("QueueName")
    if not is_name(name):
        raise invalid(BAD_NAME)
    return name


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def name_of_url(url: str | None, path: str) -> str:
    """The queue of a request, from its parameter or its path."""
    if url is None:
        if path.strip("/").count("/") != 1:
            raise missing("QueueUrl")
        url = path
    name = url.rstrip("/").rpartition("/")[2]
    if not is_name(name):
        raise no_queue()
    return name


def name_of_arn(arn: object) -> str | None:
    """The queue of an ARN; None if it is not one."""
    if not isinstance(arn, str):
        return None
    parts = arn.split(":")
    return (
        parts[5]
        if len(parts) == 6 and parts[0] == "arn" and parts[2] == "sqs" and is_name(parts[5])
        else None
    )


def arn_of(region: str, name: str) -> str:
    return f"arn:aws:sqs:{region}:{ACCOUNT}:{name}"


def region_of(text: str) -> str:
    """A valid region from a client."""
    return text if is_region(text) else REGION


def is_region(text: str) -> bool:
    return _REGION.fullmatch(text) is not None
