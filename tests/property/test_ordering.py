"""KeyGate against a dict from key to the list of its offsets that are not settled."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.delivery.ordering import KeyGate

KEYS = [b"", b"red", b"blue"]


class AnyOrderOfCalls(RuleBasedStateMachine):
    """The first of a key's list may go; the others wait."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = KeyGate()
        self.lines: dict[bytes, list[int]] = {key: [] for key in KEYS}
        self.offset = 0

    def known(self) -> list[tuple[int, bytes]]:
        return sorted((offset, key) for key, line in self.lines.items() for offset in line)

    @rule(key=st.sampled_from(KEYS), step=st.integers(1, 3))
    def admit(self, key: bytes, step: int) -> None:
        self.offset += step
        free = not self.lines[key]
        self.lines[key].append(self.offset)

        assert self.gate.admit(self.offset, key) == free

    @precondition(lambda self: self.known())
    @rule(data=st.data())
    def admit_again(self, data: st.DataObject) -> None:
        offset, key = data.draw(st.sampled_from(self.known()))

        assert self.gate.admit(offset, key) == (self.lines[key][0] == offset)

    @precondition(lambda self: self.known())
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        offset, key = data.draw(st.sampled_from(self.known()))
        line = self.lines[key]
        held = line[0] == offset
        line.remove(offset)

        assert self.gate.done(offset) == (line[0] if held and line else -1)

    @rule(offset=st.integers(0, 500))
    def settle_a_stranger(self, offset: int) -> None:
        if offset not in dict(self.known()):
            assert self.gate.done(offset) == -1

    @rule()
    def clear(self) -> None:
        self.gate.clear()
        for line in self.lines.values():
            line.clear()

    @invariant()
    def exactly_the_first_of_each_key_holds_it(self) -> None:
        first = {line[0] for line in self.lines.values() if line}
        assert {offset for offset in range(self.offset + 1) if self.gate.holds(offset)} == first
        assert self.gate.waiting == len(self.known()) - len(first)

    @invariant()
    def the_rest_of_a_line_is_behind_its_first(self) -> None:
        expected = {line[0]: len(line) - 1 for line in self.lines.values() if line}
        found = {offset: self.gate.behind(offset) for offset in range(self.offset + 1)}
        assert {offset: behind for offset, behind in found.items() if offset in expected} == expected
        assert all(found[offset] == 0 for offset in found if offset not in expected)


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase
