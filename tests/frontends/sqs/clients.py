"""Clients of the SQS port: boto3, and requests that no SDK sends."""

import http.client
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"


def connect(url: str, key_id: str = "test", secret: str = "test", region: str = "us-east-1") -> Any:
    """boto3 without repeats, so that an error is seen at once."""
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name=region,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=60),
    )


def refusal(call: Callable[..., Any], **arguments: Any) -> tuple[str, str]:
    """Code and message of the error that a call ends with."""
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["Error"]["Message"]
    raise AssertionError("it was not refused")


def bodies(answer: dict[str, Any]) -> list[str]:
    return [message["Body"] for message in answer.get("Messages", [])]


def post(url: str, body: bytes, headers: dict[str, str], path: str = "/") -> tuple[int, bytes]:
    return send(url, "POST", path, headers, body)


def send(
    url: str, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, bytes]:
    """Any request at all."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def form(url: str, path: str = "/", **fields: str) -> tuple[int, ElementTree.Element]:
    """A request of the query protocol; a name may have dots."""
    status, body = post(
        url, urlencode(fields).encode(), {"content-type": "application/x-www-form-urlencoded"}, path
    )
    return status, ElementTree.fromstring(body)


def texts(document: ElementTree.Element, name: str) -> list[str]:
    """The contents of all elements of a name."""
    return [element.text or "" for element in document.iter(NAMESPACE + name)]
