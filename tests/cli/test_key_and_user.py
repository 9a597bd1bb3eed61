"""``penstock key`` and ``penstock user``: who may come, from a shell."""

import pytest
from tests.cli.conftest import Cli

from penstock.model.access import Grant, Quota, signing_secret
from penstock.testing import TestBroker


def test_a_key_is_printed_alone_and_then_never_again(cli: Cli, penstock: TestBroker) -> None:
    made = cli(
        "key", "create", "billing", "--grant", "consumer:orders,eu.*:billing", "-g", "producer:invoices"
    )
    listed = cli("key", "list")

    [info] = penstock.keys()
    assert made.out.startswith(f"pk_{info.id}_")
    assert made.out.count("\n") == 1
    assert "cannot be shown again" in made.err
    assert info.grants == [
        Grant(role="consumer", topics=["orders", "eu.*"], groups=["billing"]),
        Grant(role="producer", topics=["invoices"]),
    ]
    assert listed.lines[0] == "id name grants quota since (UTC)"
    assert listed.lines[1].startswith(f"{info.id} billing consumer:orders,eu.*:billing")
    assert made.out.strip() not in listed.out


def test_a_key_for_sqs_is_printed_with_aws_credentials(cli: Cli, penstock: TestBroker) -> None:
    made = cli("key", "create", "jobs", "--grant", "admin:jobs", "--sqs")

    [info] = penstock.keys()
    key, key_id, secret = made.out.splitlines()
    assert key_id == f"AWS_ACCESS_KEY_ID={info.id}"
    assert secret == f"AWS_SECRET_ACCESS_KEY={signing_secret(key.split('_', 2)[2])}"
    assert penstock._core.access.key(info.id).signing == secret.partition("=")[2]  # type: ignore[union-attr]


def test_a_quota_is_written_as_people_write_it(cli: Cli, penstock: TestBroker) -> None:
    cli(
        "key",
        "create",
        "shop",
        "-g",
        "producer",
        "--bytes",
        "1MiB",
        "--messages",
        "500",
        "--connections",
        "3",
    )

    assert penstock.keys()[0].quota == Quota(bytes_per_second=1 << 20, messages_per_second=500, connections=3)
    assert "1MiB/s, 500 messages/s, 3 " in cli("key", "list").lines[1]


def test_keys_for_programs_are_documents(cli: Cli) -> None:
    cli("key", "create", "shop", "-g", "producer::eu")

    [told] = cli("key", "list", "-o", "json").documents

    assert (told["name"], told["grants"]) == (
        "shop",
        [{"role": "producer", "topics": ["*"], "groups": ["eu"]}],
    )
    assert told["quota"] == {"bytes_per_second": None, "messages_per_second": None, "connections": None}


def test_a_key_is_revoked_by_its_id(cli: Cli, penstock: TestBroker) -> None:
    made = penstock.create_key("shop", [Grant(role="reader")])

    done = cli("key", "revoke", made.id)
    again = cli("key", "revoke", made.id)

    assert (done.code, penstock.keys()) == (0, [])
    assert again.code == 1
    assert "penstock key list" in again.err


@pytest.mark.parametrize("grant", ["king", "reader:a:b:c", "reader:a*b", ""])
def test_a_grant_that_means_nothing_is_refused_before_a_server_is_asked(
    cli: Cli, servers: list[str], grant: str
) -> None:
    done = cli("key", "create", "shop", "--grant", grant)

    assert done.code == 2
    assert servers == []


def test_a_key_needs_a_grant(cli: Cli) -> None:
    assert cli("key", "create", "shop").code == 2


def test_a_password_comes_from_stdin_and_is_not_shown(cli: Cli, penstock: TestBroker) -> None:
    done = cli("user", "set", "anna", "-g", "admin", stdin=b"correct horse\n")

    [info] = penstock.users()
    stored = penstock._core.access.user("anna")
    assert info.grants == [Grant(role="admin")]
    assert stored is not None
    assert stored.fits("correct horse")
    assert "correct" not in done.out + done.err


def test_users_are_listed_and_deleted(cli: Cli, penstock: TestBroker) -> None:
    assert "there are no users" in cli("user", "list").err
    penstock.set_user("anna", "correct horse", [Grant(role="reader")])

    listed = cli("user", "list")
    documents = cli("user", "list", "-o", "json").documents
    deleted = cli("user", "delete", "anna")

    assert listed.lines[1].startswith("anna reader 2026-01-01")
    assert documents[0]["name"] == "anna"
    assert (deleted.code, penstock.users()) == (0, [])


def test_whoever_says_no_revokes_nothing(cli: Cli, penstock: TestBroker) -> None:
    made = penstock.create_key("shop", [Grant(role="reader")])
    penstock.set_user("anna", "correct horse", [Grant(role="reader")])

    assert cli("key", "revoke", made.id, keyboard=b"n\n").code == 1
    assert cli("user", "delete", "anna", keyboard=b"n\n").code == 1
    assert (len(penstock.keys()), len(penstock.users())) == (1, 1)
