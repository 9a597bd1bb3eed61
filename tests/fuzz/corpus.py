"""The saved inputs of each target: ``corpus/<target>.txt``, a line of hex for each.

They began as one valid input of every kind (``python -m tests.fuzz.seeds`` writes those that are missing);
what a soak finds is added, so that it is tried in every run from then on.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def inputs(target: str) -> list[bytes]:
    """All that is saved for a target."""
    return [bytes.fromhex(line) for line in _path(target).read_text().split()]


def save(target: str, data: bytes) -> None:
    """Keep an input, unless it is there."""
    known = inputs(target) if _path(target).exists() else []
    if data not in known:
        with _path(target).open("a") as file:
            file.write(data.hex() + "\n")


def _path(target: str) -> Path:
    return FOLDER / f"{target}.txt"
