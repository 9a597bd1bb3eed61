"""Every operation and every role: what is allowed, and that no call bypasses the table of permissions."""

import inspect
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import frontends
from penstock.api.operations import Operations
from penstock.errors import Forbidden, PenstockError, QuotaExceeded
from penstock.frontends.security.guard import REFUSED_MAX
from penstock.frontends.security.guarded import GuardedOperations
from penstock.frontends.security.identity import Identity
from penstock.frontends.security.need import verb
from penstock.frontends.security.needs import NEEDS
from penstock.model.access import ACTIONS, Grant, Permissions, Quota
from penstock.model.message import Message, received
from penstock.model.schemas import NewSchema, SchemaReference
from penstock.operations.calls import CALLS
from penstock.operations.consumers import ConsumerOptions
from penstock.testing import TestBroker
from penstock.wire.records import encode_values

ROLES = ("admin", "producer", "consumer", "reader")
# Values and hooks for the server itself.
NO_OPERATIONS = {"access", "audit", "is_creatable", "lag", "owners", "server_counts"}


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker.open() as made:
        for topic in ("orders", "orders.eu", "invoices"):
            made.create_topic(topic)
        yield made


Guard = Callable[..., Any]


@pytest.fixture
def guard(broker: TestBroker) -> Guard:
    """Makes the operations that a user with these grants gets."""

    def make(*grants: Grant, quota: Quota | None = None) -> Any:
        permissions = Permissions(grants)
        identity = Identity(kind="user", name="anna", permissions=permissions, quota=quota or Quota())
        local = broker._local
        return GuardedOperations(identity, local, local.audit, broker.clock)

    return make


def operation_names() -> set[str]:
    """The operations of an embedded broker."""
    core = TestBroker.open()
    found = {name for name in dir(core._local) if not name.startswith("_")}
    core.close()
    return found - NO_OPERATIONS


def arguments(name: str, topic: str = "orders", group: str = "billing") -> list[Any]:
    """A value for each argument of an operation; it is not run, so only names matter."""
    broker = TestBroker.open()
    parameters = inspect.signature(getattr(broker._local, name)).parameters
    broker.close()
    known: dict[str, Any] = {"topic": topic, "name": topic, "group": group, "schedule_id": f"{topic}:0:s3"}
    known |= {
        "subject": f"{topic}-value",
        "schema": NewSchema(schema="{}"),
        "options": {},
        "message": Message(b"x"),
        "messages": [Message(b"x")],
        "batches": [],
    }
    # The claim is the guard's own to make.
    return [known.get(parameter) for parameter in parameters if parameter != "claim"]


class OperationReachedError(Exception):
    """The guard has passed an operation on to the broker."""


class Boundary:
    """Replaces the broker's operations: a call with valid arguments raises the error and runs nothing."""

    def __init__(self, local: Any) -> None:
        self._local = local

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._local, name)
        if name in NO_OPERATIONS:
            return real

        def call(*values: Any, **options: Any) -> Any:
            inspect.signature(real).bind(*values, **options)
            raise OperationReachedError(name)

        return call


def begin(operations: Any, name: str, *values: Any) -> None:
    """Call an operation as far as the broker; raise ``Forbidden`` if the guard refuses it."""
    local = operations._operations
    operations._operations = Boundary(local)
    try:
        with pytest.raises(OperationReachedError) as reached:
            next(getattr(operations, name)(*values))  # Some are passed on only by their first step.
    finally:
        operations._operations = local
    assert reached.value.args == (name,)


# The table.


def test_every_operation_of_a_broker_has_an_entry_and_no_entry_is_for_nothing() -> None:
    assert set(NEEDS) == operation_names()
    assert set(NEEDS) >= {name for name in dir(Operations) if not name.startswith("_")}
    assert set(NEEDS) >= set(CALLS)
    assert set(NEEDS) <= set(vars(GuardedOperations))


def test_what_has_no_entry_cannot_be_called(guard: Guard) -> None:
    with pytest.raises(AttributeError, match="access"):
        guard(Grant(role="admin")).access  # noqa: B018 - to ask for it is the test.


def test_no_front_end_goes_to_the_broker_past_its_gateway() -> None:
    """The server itself may: it owns the gateway."""
    folder = Path(frontends.__file__).parent
    texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}

    found = {
        name
        for name, text in texts.items()
        if re.search(r"(?<!penstock\.)broker\.(operations\b|through)", text)
    }

    assert found == {"serve.py", "security/gateway.py"}


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_an_entry_names_the_places_of_topic_and_group(name: str) -> None:
    parameters = list(inspect.signature(getattr(GuardedOperations, name)).parameters)
    need = NEEDS[name]

    named = [
        place for place, one in enumerate(parameters) if one in ("topic", "name", "schedule_id", "subject")
    ]
    of_key_or_user = {"create_key", "set_user", "alter_user", "delete_user", "set_scram", "drop_scram"}
    of_topic = bool(named) and name not in of_key_or_user
    assert need.topic == (parameters[named[0]] if of_topic else None)
    assert need.group == ("group" if "group" in parameters else None)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", sorted(NEEDS))
def test_a_role_may_do_what_its_actions_say_and_nothing_else(guard: Guard, name: str, role: Any) -> None:
    operations = guard(Grant(role=role))

    allowed = True
    try:
        begin(operations, name, *arguments(name))
    except Forbidden:
        allowed = False

    assert allowed == (NEEDS[name].action in ACTIONS[role])


@pytest.mark.parametrize("name", sorted(name for name, need in NEEDS.items() if need.topic is not None))
def test_a_grant_on_one_topic_is_none_on_another(guard: Guard, name: str) -> None:
    operations = guard(Grant(role="admin", topics=["orders"]))

    begin(operations, name, *arguments(name, "orders"))
    for other in ("orders.eu", "invoices", "order"):
        with pytest.raises(
            Forbidden, match=rf"user anna is not allowed to {verb(NEEDS[name])} topic {other}"
        ):
            getattr(operations, name)(*arguments(name, other))


@pytest.mark.parametrize("name", sorted(name for name, need in NEEDS.items() if need.group is not None))
def test_a_grant_on_one_group_is_none_on_another(guard: Guard, name: str) -> None:
    operations = guard(Grant(role="admin", groups=["billing*"]))

    begin(operations, name, *arguments(name, group="billing-eu"))
    with pytest.raises(Forbidden, match=r" (topic orders, )?group shipping; it needs the "):
        getattr(operations, name)(*arguments(name, group="shipping"))


def test_roles_add_up(guard: Guard) -> None:
    operations = guard(Grant(role="producer", topics=["orders"]), Grant(role="reader", topics=["invoices"]))

    operations.publish(*arguments("publish", "orders")).close()
    begin(operations, "peek", *arguments("peek", "invoices"))
    with pytest.raises(Forbidden):
        operations.peek(*arguments("peek", "orders"))


def test_an_admin_of_some_topics_administers_no_keys(guard: Guard) -> None:
    operations = guard(Grant(role="admin", topics=["orders*"]))

    for name in ("create_key", "keys", "revoke_key", "set_user", "users", "delete_user"):
        with pytest.raises(Forbidden, match="the broker; it needs"):
            getattr(operations, name)(*arguments(name))


def test_dead_letters_go_to_no_topic_that_their_maker_may_not_administer(guard: Guard) -> None:
    operations = guard(Grant(role="admin", topics=["orders*"]))

    operations.create_topic("orders.us", {"dead_letter_topic": "orders.dead"}).close()
    with pytest.raises(Forbidden, match="invoices"):
        operations.create_topic("orders.us", {"dead_letter_topic": "invoices"})


# What leads further.


def run(broker: TestBroker, work: Any) -> Any:
    return broker._driver.run(work) if isinstance(work, Generator) else work


def test_a_schema_refers_only_to_what_its_maker_may_describe(broker: TestBroker, guard: Guard) -> None:
    broker.register_schema("invoices-value", NewSchema(schema='{"type": "string"}', type="JSON"))
    for subject, allowed in (("invoices-value", False), ("orders-key", True)):
        references = [SchemaReference(name="it", subject=subject, version=1)]
        schema = NewSchema(schema="{}", type="JSON", references=references)
        operations = guard(Grant(role="producer", topics=["orders"]))
        for name, more in (
            ("register_schema", ()),
            ("find_schema", (False,)),
            ("check_schema", (None, None)),
        ):
            with pytest.raises(PenstockError) as refused:  # Of the others, because of what does not exist.
                broker._driver.run(getattr(operations, name)("orders-value", schema, *more))
            assert isinstance(refused.value, Forbidden) != allowed


def test_lists_tell_of_what_one_may_see(broker: TestBroker, guard: Guard) -> None:
    operations = guard(Grant(role="reader", topics=["orders*"]))

    assert run(broker, operations.topics()) == ["orders", "orders.eu"]
    assert {topic for topic, _ in run(broker, operations.waiting())} == {"orders", "orders.eu"}


def test_dead_letters_of_all_topics_are_those_one_may_read(broker: TestBroker, guard: Guard) -> None:
    for topic in ("orders", "invoices"):
        broker.publish(topic, b"x")
        consumer = broker.consumer(topic)
        consumer.receive()[0].reject("no good")
        broker.advance("1s")

    [error] = run(broker, guard(Grant(role="reader", topics=["orders*"])).dead_letter_errors(None))

    assert error.topic == "orders"


def test_an_ack_publishes_only_where_its_consumer_may(broker: TestBroker, guard: Guard) -> None:
    operations = guard(Grant(role="consumer", topics=["orders"]), Grant(role="producer", topics=["invoices"]))
    broker.publish_batch("orders", [b"one", b"two"])
    consumer = run(broker, operations.consumer("orders", "billing", None, None, {}, received))
    first, second = run(broker, consumer.receive(2, 0))

    run(broker, consumer.ack([first], [("invoices", Message(b"bill"))]))
    with pytest.raises(Forbidden, match=r"publish to topic orders.eu"):
        consumer.ack([second], [("orders.eu", Message(b"bill"))])

    assert broker.depth("invoices") == 1
    assert broker.depth("orders", "billing") == 1


def test_a_batch_consumer_publishes_only_where_it_may(broker: TestBroker, guard: Guard) -> None:
    operations = guard(Grant(role="consumer"))
    broker.publish("orders", b"one")
    consumer = run(broker, operations.batch_consumer("orders", "billing", ConsumerOptions()))

    with pytest.raises(Forbidden):
        consumer.ack_and_publish([], [("invoices", Message(b"bill"))])


def test_a_producer_publishes_only_where_it_may(broker: TestBroker, guard: Guard) -> None:
    producer = run(broker, guard(Grant(role="producer", topics=["orders"])).producer("none"))

    assert run(broker, producer.publish("orders", Message(b"x"))).offset == 0
    with pytest.raises(Forbidden):
        producer.publish("invoices", Message(b"x"))


# Quotas.


def test_messages_beyond_the_quota_wait_for_the_next_second(broker: TestBroker, guard: Guard) -> None:
    operations = guard(Grant(role="producer"), quota=Quota(messages_per_second=10))

    run(broker, operations.publish_batch("orders", [b"x"] * 25))  # One may go beyond it, and waits longer.
    with pytest.raises(QuotaExceeded, match=r"10 messages a second; try again in 2 seconds") as refused:
        operations.publish("orders", Message(b"x"))
    broker.advance("1500ms")
    with pytest.raises(QuotaExceeded):
        operations.publish("orders", Message(b"x"))
    broker.advance("1s")
    run(broker, operations.publish("orders", Message(b"x")))

    assert refused.value.retryable
    assert broker.depth("orders") == 26


@pytest.mark.parametrize("way", ["publish", "append", "append_batches", "schedule", "producer", "ack"])
def test_bytes_are_counted_whichever_way_they_come(broker: TestBroker, guard: Guard, way: str) -> None:
    operations = guard(Grant(role="admin"), quota=Quota(bytes_per_second=100))
    batch = bytes(encode_values([b"x" * 200], 0))
    version, _ = run(broker, operations.metadata("orders"))
    ways: dict[str, Callable[[], Any]] = {
        "publish": lambda: operations.publish("orders", Message(b"x" * 200)),
        "append": lambda: operations.append("orders", 0, batch),
        "append_batches": lambda: operations.append_batches("orders", version, [(0, batch)], True),
        "schedule": lambda: operations.schedule("orders", Message(b"x" * 200), "* * * * *", "UTC"),
        "producer": lambda: producer.publish("orders", Message(b"x" * 200)),
        "ack": lambda: consumer.ack([], [("orders", Message(b"x", headers={"h": b"x" * 200}))]),
    }
    producer = run(broker, operations.producer("none"))
    consumer = run(broker, operations.consumer("orders", "billing", None, None, {}, received))

    run(broker, ways[way]()) if way != "ack" else ways[way]().close()

    with pytest.raises(QuotaExceeded, match=r"100 bytes a second"):
        ways[way]()


# The audit log.


def acts(broker: TestBroker, notes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Collect the entries of the audit log in a list."""
    monkeypatch.setattr(broker._core.audit, "note", lambda *entry: notes.append(entry))


def test_acts_are_noted_with_their_outcome(
    broker: TestBroker, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[Any] = []
    acts(broker, notes, monkeypatch)
    operations = guard(Grant(role="admin"))

    run(broker, operations.create_topic("new", {}))
    with pytest.raises(PenstockError):
        run(broker, operations.delete_topic("missing"))
    run(broker, operations.set_user("eve", "a password", [Grant(role="reader")], None))
    run(broker, operations.topics())
    with pytest.raises(Forbidden):
        guard(Grant(role="reader")).delete_topic("orders")

    assert notes == [
        ("user anna", "create_topic", "new", "done"),
        ("user anna", "delete_topic", "missing", "TOPIC_NOT_FOUND"),
        ("user anna", "set_user", "eve", "done"),
        ("user anna", "delete_topic", "topic orders", "FORBIDDEN"),
    ]


def test_refused_acts_do_not_drown_the_others(
    broker: TestBroker, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[Any] = []
    acts(broker, notes, monkeypatch)
    operations = guard(Grant(role="reader"))

    for _ in range(2 * REFUSED_MAX):
        with pytest.raises(Forbidden):
            operations.delete_topic("orders")

    assert len(notes) == REFUSED_MAX


def test_an_act_is_done_also_where_it_cannot_be_noted(
    broker: TestBroker, guard: Guard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise PenstockError(reason="no room")

    monkeypatch.setattr(broker._core.audit, "note", full)

    run(broker, guard(Grant(role="admin")).create_topic("new", {}))

    assert "new" in broker.topics()
    assert "create_topic by user anna on new: done" in caplog.text


def test_answers_are_remembered_up_to_a_limit(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.frontends.security.guard.ALLOWED_MAX", 3)
    operations = guard(Grant(role="reader"))

    for number in range(10):
        begin(operations, "peek", f"topic-{number}", 1, None)
        begin(operations, "peek", "x" * (1000 + number), 1, None)

    allowed = operations._allowed["peek"]
    assert 0 < len(allowed) <= 3
    assert max(map(len, allowed)) < 200
