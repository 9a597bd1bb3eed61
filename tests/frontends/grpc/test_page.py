"""docs/protocols/grpc.md names every method."""

import re
from pathlib import Path

from penstock.frontends.grpc.errors import STATUSES
from penstock.grpc import penstock_pb2 as pb

PAGE = (Path(__file__).parents[3] / "docs" / "protocols" / "grpc.md").read_text()


def test_the_page_has_every_service_and_method() -> None:
    table = PAGE.partition("## Services")[2].partition("## ")[0]
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", table))

    services = pb.DESCRIPTOR.services_by_name.values()
    assert {method.name for service in services for method in service.methods} <= named
    assert all(f"`{service.name}`" in table for service in services)


def test_the_page_has_every_status() -> None:
    table = PAGE.partition("## Errors")[2].partition("## ")[0]

    assert all(f"`{status.name}`" in table for status in STATUSES.values())
