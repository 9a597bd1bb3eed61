"""What a share consumer says, against a model that goes offset by offset."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.frontends.kafka.groups.acknowledgements import GAP, RENEW, Answers, Span, match, read_spans
from penstock.wire.kafka.messages.groups.share import AcknowledgementBatch

Run = tuple[int, int, int, int]

lengths = st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=12)


@st.composite
def held_leases(draw: st.DrawFn) -> list[Run]:
    """Leases with gaps between some of them."""
    runs: list[Run] = []
    at = 0
    for is_held, length in draw(lengths):
        if is_held:
            runs.append((0, len(runs) + 1, at, at + length))
        at += length
    return runs


@st.composite
def batches(draw: st.DrawFn) -> list[AcknowledgementBatch]:
    """Answers in order, each for a range as a whole or for each of its offsets."""
    told: list[AcknowledgementBatch] = []
    at = 0
    for is_told, length in draw(lengths):
        if is_told:
            count = draw(st.sampled_from([1, length]))
            types = draw(st.lists(st.integers(GAP, RENEW), min_size=count, max_size=count))
            told.append(
                AcknowledgementBatch(first_offset=at, last_offset=at + length - 1, acknowledge_types=types)
            )
        at += length
    return told


def by_offset(told: list[AcknowledgementBatch]) -> dict[int, int]:
    return {
        offset: batch.acknowledge_types[(offset - batch.first_offset) % len(batch.acknowledge_types)]
        for batch in told
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


def flat(answers: Answers) -> dict[int, tuple[int, int]]:
    """Type and lease of every offset, which is answered once."""
    found = [
        (offset, (kind, lease))
        for kind, runs in answers.items()
        for _, lease, start, end in runs
        for offset in range(start, end)
    ]
    assert len(found) == len(dict(found))
    return dict(found)


@given(batches())
def test_every_offset_has_the_type_that_was_said(told: list[AcknowledgementBatch]) -> None:
    spans: list[Span] | None = read_spans(told, RENEW)

    assert spans is not None
    assert {offset: kind for kind, start, end in spans for offset in range(start, end)} == by_offset(told)


@given(held_leases(), batches())
def test_all_that_is_held_is_answered_by_its_lease_or_nothing_is(
    held: list[Run], told: list[AcknowledgementBatch]
) -> None:
    leases = {offset: lease for _, lease, start, end in held for offset in range(start, end)}
    wanted = by_offset(told)

    answers = match(held, read_spans(told, RENEW) or [])

    if any(offset not in leases and kind != GAP for offset, kind in wanted.items()):
        assert answers is None
    else:
        assert answers is not None
        assert flat(answers) == {
            offset: (kind, leases[offset]) for offset, kind in wanted.items() if offset in leases
        }
