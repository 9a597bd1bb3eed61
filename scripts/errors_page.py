"""Write docs/errors.md from the error tree; ``tests/unit/test_errors.py`` compares the two.

The source of every word is ``src/penstock/errors``: the first line of a
class's docstring is what the error means, then ``Cause:`` and ``Do:``; its
sentence and its fields give the message and the facts.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path

from penstock import errors

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

HEAD = """\
# Errors

*Written by `make docs` from `src/penstock/errors`; change it there.*

Every error that Penstock raises on purpose is a `penstock.errors.PenstockError`. It has

- `code`: one word that stays the same in every language and protocol; look it up here;
- `retryable`: whether the same call may succeed later without any change;
- `facts`: the values in its sentence, by name.

`except RequestError` catches what the caller must change, `except UnavailableError` what will pass.
An `AssertionError` is a bug in Penstock: please report it.

| code | class | retry? | meaning |
| --- | --- | --- | --- |
"""


def error_classes() -> list[type[errors.PenstockError]]:
    """All classes of the tree, in the order in which ``penstock.errors`` imports them."""
    order = list(vars(errors))
    return sorted(_walk(errors.PenstockError), key=lambda kind: order.index(kind.__name__))


def _walk(kind: type[errors.PenstockError]) -> Iterator[type[errors.PenstockError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _walk(child)


def story(kind: type[errors.PenstockError]) -> tuple[str, str, str]:
    """Meaning, cause and what to do, from the docstring."""
    text = " ".join((inspect.getdoc(kind) or "").split())
    meaning, _, rest = text.partition(" Cause: ")
    cause, _, remedy = rest.partition(" Do: ")
    assert all((meaning, cause, remedy)), f"{kind.__name__} needs a docstring: what it means, Cause:, Do:"
    return meaning, cause, remedy


def section(kind: type[errors.PenstockError]) -> str:
    """One error, as a section of the page."""
    meaning, cause, remedy = (part.replace("``", "`") for part in story(kind))
    facts = [name for name in inspect.signature(kind).parameters if name != "facts"] or ["reason"]
    return f"""
## {kind.code}

`{kind.__name__}`, {"retryable" if kind.retryable else "not retryable"}. {meaning}

- **Message**: {kind.sentence.replace("!r}", "}")}
- **Facts**: {", ".join(f"`{name}`" for name in facts)}
- **Cause**: {cause}
- **What to do**: {remedy}
"""


def page() -> str:
    """The whole page."""
    kinds = error_classes()
    rows = [
        f"| [{kind.code}](#{kind.code.lower()}) | `{kind.__name__}` | {'yes' if kind.retryable else 'no'} "
        f"| {story(kind)[0].replace('``', '`')} |\n"
        for kind in kinds
    ]
    return HEAD + "".join(rows) + "".join(section(kind) for kind in kinds)


if __name__ == "__main__":
    PAGE.write_text(page())
