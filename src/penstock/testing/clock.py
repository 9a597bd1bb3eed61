"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime

from penstock.types import Duration, duration_ms

START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)


class ManualClock:
    """Virtual time, from the beginning of 2026 by default."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._steady_ms = start_ms
        self._step_ms = 0  # How far the wall clock was set away from the steady one.

    def wall_ms(self) -> int:
        return self._steady_ms + self._step_ms

    def steady_ms(self) -> int:
        """Time that never goes back."""
        return self._steady_ms

    def move_to(self, now_ms: int) -> None:
        """Let time pass up to ``now_ms`` of the steady clock."""
        assert now_ms >= self._steady_ms, "steady time does not go back"
        self._steady_ms = now_ms

    def step_wall(self, step: Duration, *, back: bool = False) -> None:
        """Set the wall clock forward or back, as an operator or a time server may; no time passes."""
        step_ms = duration_ms("step", step)
        self._step_ms += -step_ms if back else step_ms
