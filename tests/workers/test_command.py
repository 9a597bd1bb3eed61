"""``penstock worker``: finding the app, the start screen, and which files make it start again."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main
from penstock.cli.server.worker import start_screen
from penstock.workers.loading import NoSuchApp, load_app
from penstock.workers.reloading import changed_file, source_times

TASKS = """
import penstock
first = penstock.App()
second = penstock.App()
empty = penstock.App()
number = 7

@first.worker("orders")
async def handle(message): ...

second.worker("mails")(handle)

class Shop:
    app = second
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of a project; what is imported from it is forgotten at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def tasks(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "tasks.py").write_text(TASKS)


def test_an_app_is_found_from_the_working_directory(tasks: None) -> None:
    app = load_app("shop.tasks:first")

    assert [function.topic for function in app.functions] == ["orders"]
    assert load_app("shop.tasks:Shop.app").functions[0].topic == "mails"


def test_an_app_called_app_need_not_be_named(folder: Path) -> None:
    (folder / "jobs.py").write_text(TASKS.replace("first", "app"))

    assert load_app("jobs").functions[0].topic == "orders"


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("shop.tasks", "module 'shop.tasks' has no 'app'; it has shop.tasks:empty, shop.tasks:first, "),
        ("shop.task:app", "there is no module 'shop.task' in {here} or where Python looks"),
        ("stop.tasks:app", "there is no module 'stop' in {here} or where Python looks"),
        (
            "shop.tasks:number",
            "shop.tasks:number is no penstock.App, but of type int; it has shop.",
        ),
        ("shop.tasks:Shop", "shop.tasks:Shop is no penstock.App, but a class; it has"),
        ("shop.tasks:empty", "shop.tasks:empty has no functions; decorate some with @empty.worker(topic)"),
        ("shop/tasks.py:first", "'shop/tasks.py' is a file; name it as a module, shop.tasks:first"),
        ("shop tasks:first", "'shop tasks' is no name of a module; use one like shop.tasks:app"),
        ("", "'' is no name of a module; use one like shop.tasks:app"),
    ],
)
def test_a_name_that_leads_to_no_app_gets_one_sentence(tasks: None, target: str, sentence: str) -> None:
    with pytest.raises(NoSuchApp) as refusal:
        load_app(target)

    assert str(refusal.value).startswith(sentence.format(here=os.getcwd()))


def test_an_import_that_fails_inside_the_module_is_the_modules_own(folder: Path) -> None:
    (folder / "broken.py").write_text("import no_such_package_at_all")

    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
        load_app("broken:app")


def test_the_command_says_it_on_stderr_and_ends_with_2(
    tasks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["worker", "shop.tasks:nothing"]) == 2
    assert capsys.readouterr().err.startswith(
        "penstock worker: module 'shop.tasks' has no 'nothing'; it has "
    )


def test_a_log_level_that_does_not_exist_is_refused(tasks: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "shop.tasks:first", "--log-level", "loud"]) == 2
    assert "there is no log level 'loud'; use debug, info, warning or error" in capsys.readouterr().err


def test_the_start_screen_says_what_runs_and_where_in_80_columns() -> None:
    app = penstock.App("penstock://127.0.0.1:7070")

    @app.worker("orders", group="processors", concurrency=8, max_attempts=5, timeout="30s")
    async def handle(message: penstock.Message) -> None: ...

    @app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin")
    async def report() -> None: ...

    lines = start_screen("shop.tasks:app", app)

    assert lines[0].endswith(": shop.tasks:app with 2 functions at penstock://127.0.0.1:7070")
    assert lines[1:] == [
        "",
        "  function  topic or schedule                group       at once  timeout  tries",
        "  handle    orders                           processors        8     30 s      5",
        "  report    0 9 * * mon-fri (Europe/Berlin)  workers           1     none      4",
        "",
        "Press Ctrl-C to stop; running functions have 30 s to finish.",
    ]
    assert max(len(line) for line in lines[1:]) <= 80


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda folder: (folder / "new.py").write_text("x = 1"), "new.py"),
        (lambda folder: (folder / "shop" / "tasks.py").write_text("x = 1"), "tasks.py"),
        (lambda folder: (folder / "shop" / "tasks.py").unlink(), "tasks.py"),
        (lambda folder: os.utime(folder / "shop" / "tasks.py", ns=(1, 1)), "tasks.py"),
        (lambda folder: (folder / "notes.txt").write_text("x"), None),
        (lambda folder: (folder / ".venv" / "lib.py").write_text("x"), None),
        (lambda folder: (folder / "shop" / "__pycache__" / "x.py").write_text("x"), None),
    ],
)
def test_a_change_of_a_source_file_is_seen_and_no_other(
    tasks: None, folder: Path, change: Callable[[Path], object], seen: str | None
) -> None:
    (folder / ".venv").mkdir()
    (folder / "shop" / "__pycache__").mkdir()
    before = source_times(str(folder))

    change(folder)

    path = changed_file(before, source_times(str(folder)))
    assert (None if path is None else Path(path).name) == seen


def test_a_folder_that_is_gone_has_no_files(folder: Path) -> None:
    assert source_times(str(folder / "nowhere")) == {}
