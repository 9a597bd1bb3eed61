"""What functions get: the same for plain and for async ones, and what importing it costs."""

import inspect
import subprocess
import sys

import penstock

ANSWERS = ("ack", "nack", "reject", "extend")
LOADED = """
import sys, penstock
app = penstock.App()
app.worker("orders")(print)
print([name for name in sys.modules if name.startswith(("penstock.broker", "penstock.log", "typer", "rich"))])
"""


def test_the_message_of_an_async_function_has_the_same_answers_to_await() -> None:
    for name in ANSWERS:
        plain, awaited = getattr(penstock.WorkerMessage, name), getattr(penstock.AsyncWorkerMessage, name)

        assert inspect.signature(plain) == inspect.signature(awaited)
        assert inspect.getdoc(plain) == inspect.getdoc(awaited)
        assert not inspect.iscoroutinefunction(plain)
        assert inspect.iscoroutinefunction(awaited)


def test_both_have_the_same_facts() -> None:
    def facts(kind: type[penstock.Message]) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")} - {*ANSWERS}

    assert facts(penstock.WorkerMessage) == facts(penstock.AsyncWorkerMessage)


def test_an_app_does_not_load_the_broker() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
