"""The generated sources are what ``operations/spec.py`` says, and each is declared in full."""

import runpy
from pathlib import Path

from penstock.operations import spec
from penstock.operations.entry import OPERATIONS

ROOT = Path(__file__).parents[2]


def test_every_generated_file_is_up_to_date() -> None:
    writer = runpy.run_path(str(ROOT / "scripts" / "operations.py"))

    for path, text in writer["generated"]().items():
        assert path.read_text() == text, f"run `make generate`: it changes {path.relative_to(ROOT)}"


def test_every_declaration_has_a_docstring_for_its_users() -> None:
    assert spec.__doc__
    for operation in OPERATIONS.values():
        assert operation.function is None or operation.function.__doc__, operation.name


def test_what_changes_something_as_an_admin_is_audited() -> None:
    """Except the parts of a restore, whose beginning and end are; and producers register schemas."""
    for operation in OPERATIONS.values():
        changes = operation.action == "admin" and operation.acl != "describe" and operation.name != "restore"
        assert bool(operation.audit) == (changes or operation.name == "register_schema"), operation.name
