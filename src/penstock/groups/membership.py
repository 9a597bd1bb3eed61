"""The members of a group, and when their sessions expire.

    join ----> member ---- heartbeat, join again ----> member, with a new deadline
                  |
                  '------- leave, or nothing until the deadline ----> gone

A session ends when ``expire`` is called and not before: a late heartbeat of a member
that has not been removed yet is accepted, because it has not lost anything yet.

All sessions of a group have the same length, so the order in which members were
last heard is the order of their deadlines, and no heap is needed: every call is
O(1), ``expire`` O(members that expire).

Time that goes back (a caller that read its clock before it waited for a lock)
counts as time that stands still.
"""

from collections import OrderedDict


class Membership:
    """The sessions of one group."""

    def __init__(self, session_timeout_ms: int) -> None:
        assert session_timeout_ms > 0, "a session lasts some time"
        self._session_timeout_ms = session_timeout_ms
        self._now_ms = 0  # The latest time seen.
        self._deadlines_ms: OrderedDict[str, int] = OrderedDict()  # By member; the next to expire is first.

    def join(self, member: str, now_ms: int) -> bool:
        """Start a session, or renew it; True if the member is new."""
        new = member not in self._deadlines_ms
        self._renew(member, now_ms)
        return new

    def refresh(self, member: str, now_ms: int) -> bool:
        """Renew a session; False if there is none."""
        if member not in self._deadlines_ms:
            return False
        self._renew(member, now_ms)
        return True

    def leave(self, member: str, now_ms: int) -> bool:
        """End a session; False if there was none."""
        self._now_ms = max(self._now_ms, now_ms)
        return self._deadlines_ms.pop(member, None) is not None

    def expire(self, now_ms: int) -> list[str]:
        """End every session whose deadline has come; the members, longest silent first."""
        self._now_ms = max(self._now_ms, now_ms)
        gone = []
        while self._deadlines_ms and self.next_deadline_ms() <= self._now_ms:
            gone.append(self._deadlines_ms.popitem(last=False)[0])
        return gone

    def next_deadline_ms(self) -> int:
        """When the next session expires, or -1 if there is none."""
        return next(iter(self._deadlines_ms.values()), -1)

    def deadline_ms(self, member: str) -> int:
        """When the session of a present member expires."""
        return self._deadlines_ms[member]

    def names(self) -> list[str]:
        """The members, in the order of their names."""
        return sorted(self._deadlines_ms)

    def _renew(self, member: str, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)
        self._deadlines_ms[member] = self._now_ms + self._session_timeout_ms
        self._deadlines_ms.move_to_end(member)
