"""penstock.proto: its generated code is up to date, and it has every field that the broker has."""

import inspect
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from penstock import errors
from penstock.config.broker import GroupOptions, TopicOptions, TopicSettings
from penstock.frontends.grpc.errors import STATUSES
from penstock.grpc import penstock_pb2 as pb
from penstock.model import access, info, trace

ROOT = Path(__file__).parents[3]
DESCRIBED: list[tuple[Any, Any]] = [
    (pb.TopicSettings, TopicSettings),
    (pb.TopicInfo, info.TopicInfo),
    (pb.PartitionInfo, info.PartitionInfo),
    (pb.GroupInfo, info.GroupInfo),
    (pb.PartitionLag, info.PartitionLag),
    (pb.Unacked, info.Unacked),
    (pb.GroupRates, info.GroupRates),
    (pb.Verdict, info.Verdict),
    (pb.DeliveryState, info.DeliveryState),
    (pb.ScheduledMessage, info.ScheduledMessage),
    (pb.DeadLetter, info.DeadLetter),
    (pb.DeadLetterErrors, info.DeadLetterErrors),
    (pb.RedriveInfo, info.Redrive),
    (pb.BrokerInfo, info.BrokerInfo),
    (pb.StorageProblem, info.StorageProblem),
    (pb.TraceEvent, trace.TraceEvent),
    (pb.Grant, access.Grant),
    (pb.Quota, access.Quota),
    (pb.NewKey, access.NewKey),
    (pb.KeyInfo, access.KeyInfo),
    (pb.UserInfo, access.UserInfo),
]


def names_of(kind: Any) -> set[str]:
    return {field.name for field in kind.DESCRIPTOR.fields}


@pytest.mark.slow
def test_the_generated_code_is_what_protoc_writes(tmp_path: Path) -> None:
    writer = runpy.run_path(str(ROOT / "scripts" / "grpc_stubs.py"))

    subprocess.run([sys.executable, ROOT / "scripts" / "grpc_stubs.py", tmp_path], check=True)

    for name in writer["WRITTEN"]:
        assert (ROOT / "src" / name).read_text() == (tmp_path / name).read_text(), "run `make generate`"


@pytest.mark.parametrize(("kind", "described"), DESCRIBED)
def test_a_description_has_the_same_fields_as_in_python(kind: Any, described: Any) -> None:
    assert names_of(kind) == {field.name for field in msgspec.structs.fields(described)}


@pytest.mark.parametrize(
    ("kind", "options"), [(pb.TopicSettings, TopicOptions), (pb.GroupSettings, GroupOptions)]
)
def test_every_setting_can_be_set(kind: Any, options: Any) -> None:
    assert {name.removesuffix("_ms") for name in names_of(kind)} == get_type_hints(options).keys()


def test_every_code_with_a_status_of_its_own_is_an_error() -> None:
    known = {
        kind.code
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.PenstockError)
    }

    assert STATUSES.keys() <= known


@pytest.mark.slow
def test_the_stubs_are_imported_without_the_broker() -> None:
    program = "import sys, penstock.grpc.penstock_pb2_grpc; print(*sys.modules)"

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    ours = {name for name in found.stdout.split() if name.startswith("penstock.")}
    assert {name.split(".")[1] for name in ours} == {"errors", "version", "grpc"}
