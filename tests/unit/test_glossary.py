"""The glossary names a module for each term, and that module exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
ENTRIES = re.findall(r"^- (\*\*.+?)(?=^- |^#|\Z)", GLOSSARY, re.MULTILINE | re.DOTALL)


def test_each_term_of_the_glossary_names_a_module_that_exists() -> None:
    assert len(ENTRIES) > 20
    for entry in ENTRIES:
        modules = re.findall(r"`([a-z_/]+\.py)`", entry)
        missing = [name for name in modules if not (ROOT / "src" / "penstock" / name).is_file()]
        assert modules, entry
        assert not missing, entry


def test_no_term_is_defined_twice() -> None:
    terms = [term for entry in ENTRIES for term in entry.split("**")[1].split(", ")]

    assert sorted(terms) == sorted(set(terms))
