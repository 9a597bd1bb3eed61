"""A server imports only what the protocols that are on need."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from penstock.config.server import ListenSettings, ServerConfig
from penstock.frontends.serve import pass_over_modules

on = sys.argv[1:]
names = ListenSettings.__struct_fields__
listen = ListenSettings(**{name: "127.0.0.1:0" if name in on else "off" for name in names})
pass_over_modules(ServerConfig(listen=listen))
print(*sys.modules)
"""
# Imported when they are needed for the first time.
LATER = {"cramjam", "re2", "zoneinfo", "cronsim", "fastavro", "jsonschema_rs"}
OF_PROTOCOL = {
    "text": "penstock.frontends.text.server",
    "status": "penstock.frontends.status.server",
    "kafka": "penstock.frontends.kafka.server",
    "http": "uvicorn",
    "grpc": "grpc",
}
# Packages that a server is installed without, unless it is installed for Spark or for a cluster.
OF_OTHER_EXTRAS = {"librt", "pyarrow", "pyspark", "deltalake", "obstore", "psycopg"}


def imported(*on: str) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, *on]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.slow
def test_the_native_protocol_alone_imports_no_other_one() -> None:
    found = imported("native")

    assert "penstock.frontends.native.server" in found
    assert not found & {*OF_PROTOCOL.values(), "penstock.wire.kafka.messages"}
    assert not found & LATER


@pytest.mark.slow
def test_a_server_with_every_protocol_needs_nothing_of_spark_or_of_a_cluster() -> None:
    assert not imported("native", *OF_PROTOCOL, "sqs") & OF_OTHER_EXTRAS


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_PROTOCOL)
def test_a_protocol_that_is_on_is_imported_before_it_is_asked_for(name: str) -> None:
    found = imported("native", name)

    assert found & set(OF_PROTOCOL.values()) == {OF_PROTOCOL[name]}
