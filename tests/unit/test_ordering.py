from penstock.delivery.ordering import KeyGate


def test_the_second_message_of_a_key_waits_for_the_first() -> None:
    gate = KeyGate()

    assert gate.admit(1, b"red")
    assert not gate.admit(2, b"red")
    assert gate.waiting == 1

    assert gate.done(1) == 2
    assert gate.holds(2)
    assert gate.waiting == 0
    assert gate.done(2) == -1


def test_a_slow_key_does_not_stop_the_others() -> None:
    gate = KeyGate()
    gate.admit(1, b"red")

    assert gate.admit(2, b"blue")
    assert gate.done(2) == -1
    assert gate.admit(3, b"blue")


def test_the_line_of_a_key_moves_in_order() -> None:
    gate = KeyGate()
    for offset in (1, 2, 3, 4):
        gate.admit(offset, b"red")

    assert [gate.done(1), gate.done(2), gate.done(3), gate.done(4)] == [2, 3, 4, -1]
    assert gate.admit(5, b"red")


def test_a_nacked_message_keeps_its_key_and_may_go_again() -> None:
    gate = KeyGate()
    gate.admit(1, b"red")
    gate.admit(2, b"red")

    assert gate.admit(1, b"red")
    assert not gate.admit(2, b"red")
    assert gate.waiting == 1


def test_a_message_settled_in_line_is_passed_over() -> None:
    """Purged, or expired, while it waited."""
    gate = KeyGate()
    for offset in (1, 2, 3):
        gate.admit(offset, b"red")

    assert gate.done(2) == -1
    assert gate.waiting == 1
    assert gate.done(1) == 3
    assert gate.waiting == 0


def test_a_key_is_free_again_when_everyone_in_line_was_settled() -> None:
    gate = KeyGate()
    gate.admit(1, b"red")
    gate.admit(2, b"red")

    assert gate.done(2) == -1
    assert gate.done(1) == -1
    assert gate.admit(9, b"red")


def test_an_unknown_offset_is_nobodys() -> None:
    gate = KeyGate()

    assert gate.done(7) == -1
    assert not gate.holds(7)


def test_only_the_first_in_line_holds_its_key() -> None:
    gate = KeyGate()
    gate.admit(1, b"red")
    gate.admit(2, b"red")

    assert (gate.holds(1), gate.holds(2)) == (True, False)


def test_clear_frees_every_key() -> None:
    gate = KeyGate()
    gate.admit(1, b"red")
    gate.admit(2, b"red")

    gate.clear()

    assert gate.waiting == 0
    assert gate.admit(2, b"red")


def test_the_line_behind_a_holder_leaves_out_what_is_settled() -> None:
    gate = KeyGate()
    for offset in (1, 2, 3, 4):
        gate.admit(offset, b"red")
    gate.done(3)

    assert gate.line(1) == [2, 4]
    assert (gate.line(2), gate.line(9)) == ([], [])
    assert (gate.key_of(2), gate.key_of(3)) == (b"red", None)
