"""Every decoder with bytes that nobody sends: the saved ones, and mutations of them.

``make test`` tries the corpus and some mutations; ``make soak`` twenty thousand of each target, and saves
what fails (``corpus.py``), to be committed with the fix.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz import corpus
from tests.fuzz.targets import EXPECTED, TARGETS, attempt

SAVED = {name: corpus.inputs(name) for name in TARGETS}  # As they were: a failure adds to them.
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A saved input with up to five changes."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 5)):
            case 0:
                data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + draw(st.integers(1, 8)) :]
            case 2:
                data = data[:at] + draw(st.binary(max_size=16)) + data[at:]
            case 3:
                width = draw(st.sampled_from([1, 2, 4, 8]))
                number = draw(st.sampled_from(NUMBERS)) & ((1 << 8 * width) - 1)
                data = data[:at] + number.to_bytes(width, "big") + data[at + width :]
            case 4:
                other = draw(st.sampled_from(seeds))
                data = data[:at] + other[draw(st.integers(0, len(other))) :]
            case _:
                data = data[:at]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_saved_is_decoded_or_refused(name: str) -> None:
    saved = corpus.inputs(name)

    for data in saved:
        TARGETS[name](data)

    assert len(saved) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_nobody_sends_is_decoded_or_refused(name: str, data: st.DataObject) -> None:
    tried = data.draw(mutated(SAVED[name]))
    try:
        TARGETS[name](tried)
    except Exception:
        corpus.save(name, tried)  # The smallest one that fails is the last to be saved.
        raise


def test_an_error_that_nobody_expects_is_found() -> None:
    def wrong(data: bytes) -> object:
        raise IndexError(data)

    def right(data: bytes) -> object:
        raise EXPECTED[1](data)

    attempt(right, b"")
    with pytest.raises(IndexError):
        attempt(wrong, b"")
