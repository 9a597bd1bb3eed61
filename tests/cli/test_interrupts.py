"""Ctrl-C at the right moment."""

import signal

import pytest

from penstock.cli.interrupts import Interrupts


def test_an_interrupt_ends_a_wait_at_once() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            with interrupts.welcome():
                signal.raise_signal(signal.SIGINT)


def test_an_interrupt_during_work_waits_for_its_end() -> None:
    done = []

    with Interrupts() as interrupts:
        with interrupts.welcome():
            pass
        signal.raise_signal(signal.SIGINT)
        done.append("printed and acked")
        with pytest.raises(KeyboardInterrupt):
            with interrupts.welcome():
                done.append("waited again")

    assert done == ["printed and acked"]


def test_a_second_interrupt_does_not_wait() -> None:
    with Interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)

    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before

    assert signal.getsignal(signal.SIGINT) == before
