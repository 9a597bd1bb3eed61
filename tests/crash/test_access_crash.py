"""Keys and users across crashes: what was answered is there, and no secret comes back to life.

Every file operation of a small story goes wrong once, in every way, with the
process gone and with the power gone; then the directory is opened again.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from penstock.errors import PenstockError
from penstock.model.access import Grant
from penstock.testing import TestBroker
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles

READER = [Grant(role="reader")]
ADMIN = [Grant(role="admin")]

State = tuple[int, list[str]]  # How many keys; the roles of the user.

# After each step: what there is.
STATES: list[State] = [(0, []), (1, []), (1, ["reader"]), (1, ["admin"]), (0, ["admin"]), (0, [])]


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.access.access.PASSWORD_COST", 2)
    monkeypatch.setattr("penstock.broker.access.access.KEY_COST", 2)


def steps(broker: TestBroker) -> Iterator[Callable[[], object]]:
    yield lambda: broker.create_key("billing", READER)
    yield lambda: broker.set_user("anna", "correct horse", READER)
    yield lambda: broker.set_user("anna", "correct horse", ADMIN)
    yield lambda: broker.revoke_key(broker.keys()[0].id)
    yield lambda: broker.delete_user("anna")


def state(broker: TestBroker) -> State:
    return len(broker.keys()), [grant.role for user in broker.users() for grant in user.grants]


def story(files: FaultyFiles) -> int:
    """Do the steps until one goes wrong; returns how many were answered."""
    done = 0
    try:
        broker = TestBroker.open("data", files=files)
        for step in steps(broker):
            step()
            done += 1
    except (Crash, PenstockError):
        pass
    return done


def operations() -> int:
    files = FaultyFiles(CrashDisk())
    assert story(files) == len(STATES) - 1
    return len(files.operations)


@pytest.mark.parametrize("power", [False, True], ids=["process", "power"])
@pytest.mark.parametrize("fault", Fault)
def test_every_file_operation_may_go_wrong(fault: Fault, power: bool) -> None:
    for at in range(1, operations() + 1):
        disk = CrashDisk()
        answered = story(FaultyFiles(disk, at=at, fault=fault))
        if power:
            disk.power_cut(Random(at))
        else:
            disk.kill()

        with TestBroker.open("data", files=disk) as broker:
            assert state(broker) in STATES[answered : answered + 2], f"operation {at}"
