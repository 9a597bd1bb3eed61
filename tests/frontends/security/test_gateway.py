"""Logins, connections that end with their key, and servers without authentication."""

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections import Counter
from functools import partial
from typing import Any

import pytest
from tests.frontends.security.secured import Secured, secured

from penstock.broker.access.access import Credential
from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.errors import (
    Forbidden,
    Overloaded,
    PenstockError,
    QuotaExceeded,
    ShuttingDown,
    Unauthenticated,
)
from penstock.frontends.security import login_throttle
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.identity import NOBODY, Credentials
from penstock.frontends.security.login_throttle import LoginThrottle
from penstock.frontends.security.scram import ScramLogin
from penstock.model.access import Grant, Quota
from penstock.testing import ManualClock

HERE = "10.0.0.1"
THERE = "10.0.0.2"
READER = [Grant(role="reader")]
ANNA = Credentials(user="anna", password="correct horse")
WRONG = Credentials(user="anna", password="battery staple")


class ScramClient:
    """The client's side of a login by SCRAM-SHA-256."""

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password
        self.proof = b""

    def begin(self, gateway: AuthGateway) -> ScramLogin:
        """Say who it is; ``proof`` is the next message."""
        login = gateway.scram("SCRAM-SHA-256")
        bare = f"n={self._user},r=nonce".encode()
        challenge = login.first(b"n,," + bare)
        nonce, salt, iterations = (part[2:] for part in challenge.split(b","))
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), b64decode(salt), int(iterations))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = b"c=biws,r=" + nonce
        signed = b",".join((bare, challenge, without_proof))
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self.proof = without_proof + b",p=" + b64encode(proof)
        return login


async def refused(place: Secured, shown: Credentials, address: str = HERE) -> PenstockError:
    with pytest.raises(PenstockError) as refusal:
        await place.gateway.login(shown, address)
    return refusal.value


# Without authentication.


async def test_without_authentication_everybody_is_nobody_and_has_the_broker_itself() -> None:
    broker = await EmbeddedAsyncBroker.open()
    gateway = AuthGateway(broker)

    identity = await gateway.login(Credentials(key="whatever"), HERE)

    assert identity is NOBODY
    assert gateway.operations(identity) is broker.operations
    assert gateway.broker(identity) is broker
    gateway.enter(identity, lambda _: None).leave()
    await broker.close()


# Logins.


async def test_a_key_and_a_user_are_known_by_their_secrets() -> None:
    async with secured() as place:
        key = await place.key("reader", "orders")
        await place.broker.set_user("anna", "correct horse", READER)

        by_key = await place.gateway.login(Credentials(key=key), HERE)
        user = await place.gateway.login(ANNA, HERE)

        assert str(by_key) == f"key {key.split('_')[1]} (reader)"
        assert str(user) == "user anna"
        assert await place.gateway.broker(by_key).topics() == ["orders"]
        assert await place.gateway.broker(user).topics() == ["invoices", "orders"]


@pytest.mark.parametrize(
    "shown",
    [
        Credentials(),
        Credentials(key=""),
        Credentials(key="pk_1234"),
        Credentials(key="sk_1234_secret"),
        Credentials(key="pk_1234_secret"),
        Credentials(key="pk_1234_" + "x" * 5000),
        Credentials(user="anna"),
        Credentials(user="nobody", password="correct horse"),
        Credentials(user="anna", password=""),
        Credentials(user="anna", password="x" * 5000),
        Credentials(user="anna\udc80", password="\udc80"),
        WRONG,
    ],
    ids=range(12),
)
async def test_who_shows_nothing_or_something_wrong_is_refused(shown: Credentials) -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)

        error = await refused(place, shown)

        assert isinstance(error, Unauthenticated)
        assert (shown.password or "correct") not in str(error) or shown.password == ""


async def test_a_wrong_secret_of_a_key_that_exists_is_refused() -> None:
    async with secured() as place:
        key = await place.key("reader")

        error = await refused(place, Credentials(key=key + "x"))

        assert "not valid, or was revoked" in str(error)


async def test_a_name_that_does_not_exist_is_refused_in_the_same_words_as_a_wrong_password() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)

        known = await refused(place, WRONG)
        unknown = await refused(place, Credentials(user="eve", password="correct horse"))

        assert str(known) == str(unknown)


async def test_a_secret_that_fitted_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with secured() as place:
        key = await place.key("reader")
        await place.broker.set_user("anna", "correct horse", READER)
        await place.gateway.login(Credentials(key=key), HERE)
        await place.gateway.login(ANNA, HERE)

        def fits(*_: Any) -> bool:
            raise AssertionError

        monkeypatch.setattr("penstock.broker.access.access.Credential.fits", fits)

        await place.gateway.login(Credentials(key=key), HERE)
        await place.gateway.login(ANNA, HERE)


async def test_an_old_password_is_not_remembered() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)
        await place.gateway.login(ANNA, HERE)

        await place.broker.set_user("anna", "another one", READER)

        assert isinstance(await refused(place, ANNA), Unauthenticated)


async def test_a_user_that_is_changed_while_the_password_is_looked_at_is_refused() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)

        login = asyncio.get_running_loop().create_task(place.gateway.login(ANNA, HERE))
        await asyncio.sleep(0)
        await place.broker.delete_user("anna")

        with pytest.raises(Unauthenticated):
            await login


# Failed logins.


def test_the_first_failures_cost_nothing_and_the_others_more_and_more() -> None:
    waits = [LoginThrottle.wait_ms(count) for count in range(login_throttle.FREE_MAX + 8)]

    assert waits[: login_throttle.FREE_MAX] == [0] * login_throttle.FREE_MAX
    assert waits[login_throttle.FREE_MAX :] == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]


def fail(throttle: LoginThrottle, *subjects: str) -> None:
    """A login that is tried, and fails."""
    throttle.check(*subjects)
    throttle.begin(*subjects)
    throttle.end(*subjects)
    throttle.fail(*subjects)


def test_failures_are_counted_for_a_name_and_for_an_address_and_forgotten_after_a_while() -> None:
    clock = ManualClock()
    failures = LoginThrottle(clock)
    for _ in range(login_throttle.FREE_MAX):
        fail(failures, "address 1", "user anna")

    for subjects in (("address 1", "user eve"), ("address 2", "user anna")):
        with pytest.raises(QuotaExceeded, match="try again in 1 seconds"):
            failures.check(*subjects)
    fail(failures, "address 2", "user eve")
    clock.move_to(clock.steady_ms() + 1000)
    fail(failures, "address 1", "user anna")
    with pytest.raises(QuotaExceeded, match="try again in 2 seconds"):
        failures.check("address 1", "user anna")
    clock.move_to(clock.steady_ms() + login_throttle.FORGET_MS + 1)
    for _ in range(login_throttle.FREE_MAX):
        fail(failures, "address 1", "user anna")


def test_no_more_are_in_progress_than_may_fail() -> None:
    throttle = LoginThrottle(ManualClock())
    fail(throttle, "address 1", "user eve")
    for number in range(login_throttle.FREE_MAX - 1):
        assert not throttle.is_full("address 1", f"user {number}")
        throttle.begin("address 1", f"user {number}")

    assert throttle.is_full("address 1", "user anna")
    assert not throttle.is_full("address 2", "user anna")
    throttle.end("address 1", "user 0")
    assert not throttle.is_full("address 1", "user anna")


def test_a_login_that_succeeds_leaves_nothing() -> None:
    throttle = LoginThrottle(ManualClock())

    throttle.begin("address 1", "user anna")
    throttle.end("address 1", "user anna")

    assert not throttle._attempts


def test_no_more_names_are_remembered_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_throttle, "SUBJECTS_MAX", 5)
    throttle = LoginThrottle(ManualClock())

    for number in range(50):
        fail(throttle, f"user {number}")

    assert len(throttle._attempts) == 5


async def test_many_users_may_log_in_from_one_address_at_once() -> None:
    async with secured() as place:
        names = [f"user-{number}" for number in range(3 * login_throttle.FREE_MAX)]
        for name in names:
            await place.broker.set_user(name, "correct horse", READER)

        known = await asyncio.gather(
            *(place.gateway.login(Credentials(user=name, password="correct horse"), HERE) for name in names)
        )

        assert [str(each) for each in known] == [f"user {name}" for name in names]


async def test_logins_that_wait_for_others_are_limited_and_told_when_the_server_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.frontends.security.logins.WAITING_MAX", login_throttle.FREE_MAX + 2)
    async with secured() as place:
        guesses = [Credentials(user=f"u{number}", password="wrong") for number in range(30)]
        logins = [place.gateway.start_login(guess, HERE) for guess in guesses]
        place.gateway.close()

        told = await asyncio.gather(*logins, return_exceptions=True)

    counts = Counter(type(each) for each in told)
    assert counts[Overloaded] == 30 - 2 * login_throttle.FREE_MAX - 2
    assert counts[ShuttingDown] >= login_throttle.FREE_MAX + 2


async def test_a_password_cannot_be_guessed_quickly_and_its_owner_comes_in_later() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)
        await place.gateway.login(ANNA, THERE)
        for _ in range(login_throttle.FREE_MAX):
            assert isinstance(await refused(place, WRONG), Unauthenticated)

        # Also the right one, and from elsewhere, or it could be guessed at any speed.
        assert isinstance(await refused(place, ANNA, THERE), QuotaExceeded)
        assert isinstance(await refused(place, WRONG, THERE), QuotaExceeded)
        place.clock.move_to(place.clock.steady_ms() + 1000)
        await place.gateway.login(ANNA, THERE)


async def test_a_right_login_does_not_delay_the_next_one_from_its_address() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)
        for number in range(login_throttle.FREE_MAX):
            await refused(place, Credentials(user=f"u{number}", password="wrong"))
        place.clock.move_to(place.clock.steady_ms() + 1000)

        for _ in range(3 * login_throttle.FREE_MAX):
            await place.gateway.login(ANNA, HERE)

        assert isinstance(await refused(place, WRONG), Unauthenticated)
        assert isinstance(await refused(place, ANNA), QuotaExceeded)


async def test_failures_are_forgotten_although_others_log_in_from_their_address() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)
        for number in range(login_throttle.FREE_MAX):
            await refused(place, Credentials(user=f"u{number}", password="wrong"))

        for _ in range(2):
            place.clock.move_to(place.clock.steady_ms() + login_throttle.FORGET_MS // 2 + 1)
            await place.gateway.login(ANNA, HERE)

        for number in range(login_throttle.FREE_MAX):
            assert isinstance(
                await refused(place, Credentials(user=f"v{number}", password="wrong")), Unauthenticated
            )


async def test_many_may_log_in_by_scram_at_once_and_those_who_give_up_do_not_count() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)
        clients = [ScramClient("anna", "correct horse") for _ in range(3 * login_throttle.FREE_MAX)]

        begun = [client.begin(place.gateway) for client in clients]
        for client, login in zip(clients[5:], begun[5:], strict=True):
            answer, identity = place.gateway.scram_final(login, client.proof, HERE)
            assert (str(identity), answer[:2]) == ("user anna", b"v=")


async def test_a_password_cannot_be_guessed_quickly_by_scram(caplog: pytest.LogCaptureFixture) -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)
        guesses = [ScramClient("anna", f"guess {number}") for number in range(login_throttle.FREE_MAX)]
        owner = ScramClient("anna", "correct horse")

        for client, login in [(client, client.begin(place.gateway)) for client in guesses]:
            with pytest.raises(Unauthenticated):
                place.gateway.scram_final(login, client.proof, HERE)

        with pytest.raises(QuotaExceeded):
            place.gateway.scram_final(owner.begin(place.gateway), owner.proof, THERE)
        place.clock.move_to(place.clock.steady_ms() + 1000)
        place.gateway.scram_final(owner.begin(place.gateway), owner.proof, THERE)
    assert caplog.messages.count("login of user 'anna' from 10.0.0.1 refused") == login_throttle.FREE_MAX


async def test_wrong_keys_from_the_same_address_do_not_keep_a_right_one_waiting() -> None:
    async with secured() as place:
        key = await place.key("reader")
        for _ in range(3 * login_throttle.FREE_MAX):
            await refused(place, Credentials(key="pk_0000_guess"))

        assert isinstance(await refused(place, Credentials(key="pk_0000_guess")), QuotaExceeded)
        await place.gateway.login(Credentials(key=key), HERE)


async def test_addresses_of_one_network_of_ipv6_are_one_place() -> None:
    async with secured() as place:
        for number in range(login_throttle.FREE_MAX):
            await refused(place, Credentials(user=f"u{number}", password="wrong"), f"2001:db8::{number:x}")

        near = await refused(place, Credentials(user="anna", password="wrong"), "2001:db8::ffff%eth0")
        far = await refused(place, Credentials(user="anna", password="wrong"), "2001:db8:0:1::1")

        assert isinstance(near, QuotaExceeded)
        assert isinstance(far, Unauthenticated)


async def test_more_logins_than_can_wait_are_told_to_come_again_and_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.frontends.security.logins.WAITING_MAX", 2)
    async with secured() as place:
        keys = [await place.key("reader") for _ in range(20)]

        answers = await asyncio.gather(
            *(place.gateway.login(Credentials(key=key), HERE) for key in keys), return_exceptions=True
        )

        assert sum(isinstance(answer, Overloaded) for answer in answers) == 18
        for key in keys:
            await place.gateway.login(Credentials(key=key), HERE)


@pytest.mark.parametrize("kind", ["key", "user"])
async def test_many_who_come_at_once_with_one_secret_come_in_and_it_is_hashed_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    fits = Credential.fits

    def counted(credential: Credential, secret: str) -> bool:
        hashed.append(secret)
        return fits(credential, secret)

    monkeypatch.setattr(Credential, "fits", counted)
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)
        shown = ANNA if kind == "user" else Credentials(key=await place.key("reader"))

        known = await asyncio.gather(*(place.gateway.login(shown, HERE) for _ in range(200)))

        assert len(set(map(id, known))) == 1
        assert len(hashed) == 1


async def test_guesses_at_the_same_time_count_one_by_one() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", READER)

        guesses = [Credentials(user="anna", password=f"guess {number}") for number in range(30)]
        answers = await asyncio.gather(
            *(place.gateway.login(guess, HERE) for guess in guesses), return_exceptions=True
        )

        assert sum(isinstance(answer, Unauthenticated) for answer in answers) == login_throttle.FREE_MAX
        assert sum(isinstance(answer, QuotaExceeded) for answer in answers) == 30 - login_throttle.FREE_MAX


# Connections.


async def test_connections_of_a_key_have_a_quota() -> None:
    async with secured() as place:
        key = await place.key("reader", quota=Quota(connections=2))
        identity = await place.gateway.login(Credentials(key=key), HERE)

        connections = [place.gateway.enter(identity, lambda _: None) for _ in range(2)]
        with pytest.raises(QuotaExceeded, match="2 connections"):
            place.gateway.enter(identity, lambda _: None)
        connections[0].leave()
        place.gateway.enter(identity, lambda _: None)


async def test_a_key_that_is_revoked_ends_its_connections_and_no_others() -> None:
    async with secured() as place:
        keys = [await place.key("reader") for _ in range(2)]
        ended: list[str] = []
        identities = [await place.gateway.login(Credentials(key=key), HERE) for key in keys]
        for name, identity in zip("ab", identities, strict=True):
            place.gateway.enter(identity, partial(lambda name, why: ended.append(f"{name} {why.code}"), name))

        await place.broker.revoke_key(identities[0].name)
        await asyncio.sleep(0)

        assert ended == ["a UNAUTHENTICATED"]
        assert isinstance(await refused(place, Credentials(key=keys[0])), Unauthenticated)
        with pytest.raises(Unauthenticated):  # Also for one who logged in just before.
            place.gateway.operations(identities[0])
        await place.gateway.login(Credentials(key=keys[1]), HERE)


async def test_a_user_that_is_changed_has_other_grants_at_once() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", [Grant(role="admin")])
        before = await place.gateway.login(ANNA, HERE)
        await place.gateway.broker(before).create_topic("new")

        await place.broker.set_user("anna", "correct horse", READER)

        with pytest.raises(Unauthenticated):
            place.gateway.operations(before)
        after = await place.gateway.login(ANNA, HERE)
        with pytest.raises(Unauthenticated):  # Who came with the old password stays out.
            place.gateway.operations(before)
        with pytest.raises(Forbidden):
            await place.gateway.broker(after).delete_topic("new")


async def test_nobody_gets_nothing_where_keys_are_asked_for() -> None:
    async with secured() as place:
        with pytest.raises(Unauthenticated, match="requires an API key"):
            place.gateway.operations(NOBODY)
        with pytest.raises(Unauthenticated):
            place.gateway.enter(NOBODY, lambda _: None)
