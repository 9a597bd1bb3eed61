"""What is declared: which function, on what, with which limits."""

import functools
import re
from collections.abc import Callable

import pytest

import penstock
from penstock.errors import InvalidName, InvalidValue


async def nothing(message: penstock.Message) -> None: ...


def plain(message: penstock.Message) -> None: ...


class Service:
    """Something that can be called, as dependency injection likes it."""

    async def __call__(self, message: penstock.Message) -> None: ...

    def method(self, message: penstock.Message) -> None: ...


def test_a_decorated_function_stays_what_it_was() -> None:
    app = penstock.App()

    assert app.worker("orders")(plain) is plain
    assert app.schedule("* * * * *")(nothing) is nothing


def test_a_declaration_has_what_was_said_and_the_usual_for_the_rest() -> None:
    app = penstock.App()
    app.worker("orders", group="processors", concurrency=8, max_attempts=5, timeout="30s")(nothing)
    app.worker("mails")(plain)

    handle, mail = app.functions

    assert (handle.name, handle.topic, handle.group) == ("nothing", "orders", "processors")
    assert (handle.concurrency, handle.timeout_ms, handle.settings.max_attempts) == (8, 30_000, 5)
    assert handle.is_async
    assert (mail.group, mail.concurrency, mail.timeout_ms, mail.is_async) == ("default", 1, None, False)


@pytest.mark.parametrize(
    ("function", "name", "is_async"),
    [
        (Service(), "Service", True),
        (Service().method, "method", False),
        (functools.partial(nothing), "partial", True),
        (lambda message: None, "<lambda>", False),
        (print, "print", False),
    ],
)
def test_whatever_can_be_called_with_a_message_may_work(
    function: Callable[[object], None], name: str, is_async: bool
) -> None:
    app = penstock.App()

    app.worker("orders")(function)

    assert [(known.name, known.is_async) for known in app.functions] == [(name, is_async)]


def test_a_scheduled_function_has_a_topic_of_its_own() -> None:
    app = penstock.App(name="billing")
    app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin", ttl="1h")(nothing)
    app.schedule("0 9 * * *", name="a b")(plain)

    assert [function.topic for function in app.functions] == [
        "schedule.billing.nothing",
        "schedule.billing.a-b",
    ]
    assert app.functions[0].recurring is not None
    assert app.functions[0].recurring.ttl_ms == 3_600_000


def test_a_scheduled_function_takes_the_message_or_nothing() -> None:
    app = penstock.App()

    @app.schedule("* * * * *")
    async def report() -> None: ...

    @app.schedule("* * * * *")
    async def look(message: penstock.Message) -> None: ...

    assert [function.takes_message for function in app.functions] == [False, True]


def two(message: object, other: object) -> None: ...


def keyword(message: object, *, other: object) -> None: ...


def none() -> None: ...


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda app: app.worker("orders", kind="stream"), "queue group"),
        (lambda app: app.worker("orders", concurrency=0), "concurrency"),
        (lambda app: app.worker("orders", timeout=0), "above 0"),
        (lambda app: app.worker("orders", timeout="soon"), "timeout"),
        (lambda app: app.worker("orders", max_atempts=3), "there is no such setting"),
        (lambda app: app.worker("orders", backoff="quick"), "backoff"),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_stands(
    declare: Callable[[penstock.App], Callable[[object], object]], words: str
) -> None:
    with pytest.raises(InvalidValue, match=words):
        declare(penstock.App())(nothing)


@pytest.mark.parametrize(
    ("function", "words"), [(two, "message, other"), (keyword, "other"), (none, "one argument")]
)
def test_a_function_that_cannot_be_called_with_the_message_is_refused(
    function: Callable[..., None], words: str
) -> None:
    with pytest.raises(InvalidValue, match=words):
        penstock.App().worker("orders")(function)


def test_names_are_checked() -> None:
    with pytest.raises(InvalidName):
        penstock.App().worker("or ders")(nothing)
    with pytest.raises(InvalidName):
        penstock.App(name="a b")


def test_two_functions_in_one_group_would_share_the_messages_and_are_refused() -> None:
    app = penstock.App()
    app.worker("orders", group="a")(nothing)
    app.worker("orders", group="b")(plain)

    with pytest.raises(InvalidValue, match="use another group"):
        app.worker("orders", group="a")(plain)


def test_two_scheduled_functions_of_one_name_are_refused() -> None:
    app = penstock.App()
    app.schedule("* * * * *")(nothing)

    with pytest.raises(InvalidValue, match="name="):
        app.schedule("0 * * * *")(nothing)


def test_the_server_is_the_one_that_was_given_or_the_environment_s_or_the_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PENSTOCK_SERVER", raising=False)
    assert penstock.App().server == "penstock://127.0.0.1:7070"

    monkeypatch.setenv("PENSTOCK_SERVER", "penstock://broker:1")
    assert penstock.App().server == "penstock://broker:1"
    assert penstock.App("penstock://other:2").server == "penstock://other:2"


class Order:
    """Something that a message might be decoded to."""


def decoded(order: Order) -> None: ...


def decoded_or_not(order: Order | None) -> None: ...


def parsed(order: dict[str, int]) -> None: ...


def text(order: "str") -> None: ...


async def blocking(message: penstock.WorkerMessage) -> None: ...


@pytest.mark.parametrize(
    ("function", "annotation"),
    [
        (decoded, "Order"),
        (decoded_or_not, "Order | None"),
        (parsed, "dict"),
        (text, "str"),
        (blocking, "WorkerMessage"),
    ],
)
def test_an_argument_that_is_not_a_message_is_refused_where_it_is_declared(
    function: Callable[[object], None], annotation: str
) -> None:
    app = penstock.App()

    with pytest.raises(InvalidValue, match=f"annotated as .*{re.escape(annotation)}.* penstock.Message"):
        app.worker("orders")(function)
    with pytest.raises(InvalidValue, match="annotated as"):
        app.schedule("* * * * *")(function)
    assert app.functions == []


def wider(message: object) -> None: ...


def either(message: penstock.Message | Order) -> None: ...


def unknown(message: "NotImportedAtRuntime") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("function", [wider, either, unknown])
def test_an_argument_that_may_be_a_message_is_accepted(function: Callable[[object], None]) -> None:
    app = penstock.App()

    app.worker("orders")(function)

    assert len(app.functions) == 1


def test_a_decorator_without_parentheses_is_refused() -> None:
    app = penstock.App()

    with pytest.raises(InvalidValue, match=r"@app.worker\('orders'\)"):
        app.worker(plain)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match=r"@app.schedule\('0 9"):
        app.schedule(plain)  # type: ignore[arg-type]
