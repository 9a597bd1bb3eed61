"""Whose a transactional id is: nobody else uses it, fences its producer, or ends what that has under way."""

import pytest
from tests.transactional import TIMEOUT_MS, batch, run

from penstock.errors import Forbidden
from penstock.groups.transactions import Claim
from penstock.log.files import MemoryFiles
from penstock.testing import TestBroker


def test_a_name_is_its_owners_and_nobody_else_fences_or_ends_it() -> None:
    broker = TestBroker.open()
    broker.create_topic("orders", partitions=2)
    anna, ben, chief = Claim("user anna"), Claim("user ben"), Claim("user chief", takes=True)
    number, epoch = run(broker, "init_producer", "p", TIMEOUT_MS, -1, -1, anna)
    run(broker, "enlist", "orders", [0], "p", number, epoch, anna)

    for work in (
        ("init_producer", "p", TIMEOUT_MS, -1, -1, ben),
        ("enlist", "orders", [1], "p", number, epoch, ben),
        ("enlist_group", "p", number, epoch, "g", ben),
        ("end_transaction", "p", number, epoch, False, ben),
        ("end_epoch", "p", number, epoch, False, ben),
    ):
        with pytest.raises(Forbidden, match="user anna"):
            run(broker, *work)
    batches = [(0, batch([b"a"], number, epoch, 0))]
    [refused] = run(broker, "append_in_transaction", "orders", batches, True, "p", True, ben)
    assert isinstance(refused, Forbidden)
    run(broker, "end_transaction", "p", number, epoch, True, anna)

    assert run(broker, "init_producer", "p", TIMEOUT_MS, -1, -1, chief) == (number, epoch + 1)
    with pytest.raises(Forbidden, match="user chief"):
        run(broker, "init_producer", "p", TIMEOUT_MS, -1, -1, anna)
    broker.close()


def test_the_owner_of_a_name_is_known_after_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        run(broker, "init_producer", "p", TIMEOUT_MS, -1, -1, Claim("user anna"))
        run(broker, "init_producer", "anybodys", TIMEOUT_MS, -1, -1)

    with TestBroker.open("data", files=files) as broker:
        with pytest.raises(Forbidden):
            run(broker, "init_producer", "p", TIMEOUT_MS, -1, -1, Claim("user ben"))
        run(broker, "init_producer", "anybodys", TIMEOUT_MS, -1, -1, Claim("user ben"))
        run(broker, "init_producer", "p", TIMEOUT_MS, -1, -1)  # Where nobody is asked who they are.
