"""API keys and users: who there is, what each may do, and that no secret is ever stored."""

from typing import Any

import msgspec
import pytest

from penstock.broker.access.access import Credential
from penstock.errors import DirectoryUnusable, DiskFull, IdentityNotFound, InvalidName, InvalidValue
from penstock.log.files import MemoryFiles
from penstock.model.access import ACTIONS, Grant, Quota
from penstock.testing import TestBroker
from penstock.testing.files import Fault, FaultyFiles

READER = Grant(role="reader")


# Grants.


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("orders", "orders", True),
        ("orders", "orders.dlq", False),
        ("orders", "order", False),
        ("orders*", "orders", True),
        ("orders*", "orders.dlq", True),
        ("orders*", "order", False),
        ("*", "anything", True),
    ],
)
def test_a_pattern_is_a_name_or_the_beginning_of_names(pattern: str, name: str, fits: bool) -> None:
    grant = Grant(role="reader", topics=[pattern])

    assert grant.allows("read", name) is fits


def test_a_role_allows_its_actions_and_no_other() -> None:
    allowed = {
        role: {
            action
            for action in ACTIONS["admin"]
            if Grant(role=role, topics=["orders"]).allows(action, "orders")
        }
        for role in ("admin", "producer", "consumer", "reader")
    }

    assert allowed == ACTIONS


def test_a_consumer_of_some_groups_is_none_of_others() -> None:
    grant = Grant(role="consumer", topics=["orders"], groups=["billing*"])

    assert grant.allows("consume", "orders", "billing-eu")
    assert not grant.allows("consume", "orders", "shipping")
    assert not grant.allows("consume", "invoices", "billing-eu")


def test_keys_are_administered_by_admins_of_all_topics_only() -> None:
    assert Grant(role="admin").allows("admin", None)
    assert not Grant(role="admin", topics=["orders*"]).allows("admin", None)


@pytest.mark.parametrize("topics", [[], [""], ["a*b"], ["**"], ["or ders"], ["../x"], "orders", [1]])
def test_a_pattern_that_means_nothing_is_refused(topics: Any) -> None:
    with pytest.raises(InvalidValue, match="topics cannot be"):
        Grant(role="reader", topics=topics)


@pytest.mark.parametrize(
    "quota", [{"connections": 0}, {"bytes_per_second": -1}, {"messages_per_second": 1.5}]
)
def test_a_quota_is_a_whole_number_from_one_on(quota: Any) -> None:
    with pytest.raises(InvalidValue):
        Quota(**quota)


# Keys and users.


def test_a_key_is_told_once_and_listed_without_its_secret(penstock: TestBroker) -> None:
    made = penstock.create_key("billing", [READER], quota=Quota(connections=3))

    [listed] = penstock.keys()
    secret = made.key.removeprefix(f"pk_{made.id}_")

    assert (listed.id, listed.name, listed.grants, listed.quota) == (
        made.id, "billing", [READER], Quota(connections=3)
    )  # fmt: skip
    assert len(secret) > 40
    assert secret not in str(msgspec.json.encode(listed))


def test_two_keys_of_one_name_are_two_keys(penstock: TestBroker) -> None:
    first, second = (penstock.create_key("billing", [READER]) for _ in range(2))

    assert first.id != second.id
    assert first.key != second.key


def test_a_key_that_is_revoked_is_gone(penstock: TestBroker) -> None:
    made = penstock.create_key("billing", [READER])

    penstock.revoke_key(made.id)

    assert penstock.keys() == []
    with pytest.raises(IdentityNotFound, match=r"penstock key list"):
        penstock.revoke_key(made.id)


def test_a_user_is_set_again_and_deleted(penstock: TestBroker) -> None:
    penstock.set_user("anna", "correct horse", [READER])
    [made] = penstock.users()
    penstock.advance("1h")

    penstock.set_user("anna", "battery staple", [Grant(role="admin")])

    [changed] = penstock.users()
    assert changed.grants == [Grant(role="admin")]
    assert changed.created_ms == made.created_ms
    penstock.delete_user("anna")
    assert penstock.users() == []
    with pytest.raises(IdentityNotFound):
        penstock.delete_user("anna")


@pytest.mark.parametrize("password", ["short", "", None, 12345678, "x" * 1001])
def test_what_is_no_password_is_refused_and_not_shown(penstock: TestBroker, password: Any) -> None:
    with pytest.raises(InvalidValue, match=r"8 to 1000 characters") as refused:
        penstock.set_user("anna", password, [READER])

    assert not password or str(password) not in str(refused.value)


@pytest.mark.parametrize("grants", [[], None, [{"role": "king"}], ["reader"], 5])
def test_a_key_without_a_good_grant_is_refused(penstock: TestBroker, grants: Any) -> None:
    with pytest.raises(InvalidValue):
        penstock.create_key("billing", grants)

    assert penstock.keys() == []


def test_a_key_has_a_name_like_everything(penstock: TestBroker) -> None:
    with pytest.raises(InvalidName):
        penstock.create_key("two words", [READER])


# On disk.


def test_keys_and_users_are_there_after_a_restart_and_their_secrets_are_not_on_disk() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        made = broker.create_key("billing", [READER])
        broker.set_user("anna", "correct horse", [READER])
        before = broker.keys(), broker.users()

    with TestBroker.open("data", files=files) as broker:
        again = broker.keys(), broker.users()
        stored = broker._core.access.key(made.id)

    assert again == before
    text = files.read_file("data/access.json").decode()
    assert made.key.split("_", 2)[2] not in text
    assert "correct horse" not in text
    assert stored is not None
    assert stored.credential.fits(made.key.removeprefix(f"pk_{made.id}_"))


def test_one_secret_has_another_hash_each_time() -> None:
    first, second = (Credential.of("secret", 2) for _ in range(2))

    assert first.digest != second.digest
    assert first.fits("secret")
    assert not first.fits("secret ")


def test_a_damaged_file_of_keys_lets_nobody_in_and_is_not_overwritten() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_key("billing", [READER])
    damaged = files.read_file("data/access.json").replace(b"reader", b"admin")
    files.write_file("data/access.json", damaged)

    with TestBroker.open("data", files=files) as broker:
        assert [problem.kind for problem in broker.stats().problems] == ["file_damaged"]
        assert broker.keys() == []
        with pytest.raises(DirectoryUnusable, match=r"access.json is damaged"):
            broker.create_key("another", [READER])
        with pytest.raises(DirectoryUnusable, match=r"access.json is damaged"):
            assert broker._core.access.has_admin  # So a server that asks for keys does not start.
    assert files.read_file("data/access.json") == damaged


# The book of acts.


def test_acts_are_lines_in_their_order_and_half_a_line_is_ended() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker._core.audit.note("user anna", "delete_topic", "orders", "done")
    torn = files.open("data/audit.log", create=False)
    torn.append((b'{"time":"2026',))
    torn.close()

    with TestBroker.open("data", files=files) as broker:
        broker._core.audit.note("user eve", "delete_topic", "orders", "FORBIDDEN")

    first, half, last = files.read_file("data/audit.log").splitlines()
    assert msgspec.json.decode(first)["who"] == "user anna"
    assert half == b'{"time":"2026'
    assert msgspec.json.decode(last)["outcome"] == "FORBIDDEN"


def test_a_book_that_is_full_begins_anew_and_keeps_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.access.audit.BYTES_MAX", 200)
    files = MemoryFiles()

    with TestBroker.open("data", files=files) as broker:
        for number in range(3):
            broker._core.audit.note("user anna", "delete_topic", f"topic-{number}", "done")

    assert files.read_file("data/audit.log.1").count(b"\n") == 2
    assert b"topic-2" in files.read_file("data/audit.log")


def test_a_disk_that_is_full_changes_nothing() -> None:
    files = FaultyFiles(MemoryFiles())
    with TestBroker.open("data", files=files) as broker:
        made = broker.create_key("billing", [READER])
        files.fail_next(Fault.FULL, lasting=True)

        with pytest.raises(DiskFull):
            broker.revoke_key(made.id)
        with pytest.raises(DiskFull):
            broker.set_user("anna", "correct horse", [READER])

        [left] = broker.keys()
        assert (left.id, broker.users()) == (made.id, [])
        files.heal()
        broker.revoke_key(made.id)
