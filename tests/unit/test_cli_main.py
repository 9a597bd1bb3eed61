"""The command line itself; each command has its own file of tests."""

import pytest

from penstock.cli.main import COMMANDS, main
from penstock.version import version_line


def test_version_is_one_line_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["--version"])

    assert ending.value.code == 0
    assert capsys.readouterr().out == f"{version_line()}\n"


def test_no_command_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([])

    assert code == 2
    assert all(f"    {name}" in capsys.readouterr().out for name in COMMANDS)


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["fly"])

    assert ending.value.code == 2
    assert "fly" in capsys.readouterr().err
