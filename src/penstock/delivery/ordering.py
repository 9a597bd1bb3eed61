"""Order by key in a queue group: one message of a key at a time.

An ordered queue group may have many messages in flight, but never two with equal keys.
A key is *held* by the message in flight; later messages with the key wait in a queue,
and other keys are not affected:

      key      held by     waiting
      red      17          21, 40
      blue     18
      green    19          20

    admit(21, red)   -> False: 17 is in flight, 21 waits
    done(17)         -> 21: it holds red now, and may be delivered

A message that is nacked or whose lease expired still holds its key until it is
settled (acked, dead-lettered, expired or skipped).  So a poison message blocks only
its own key.

Invariants:

    K1  a key is held by at most one offset, and if any waits, by exactly one
    K2  the queue of a key rises, because the caller admits its offsets in rising order
    K3  ``waiting`` is the number of waiting offsets that are not settled

A consumer may be handed several messages of a key at once (``GroupConsumer.key_batches``).  The first
holds the key; the others wait in line here, although they are in flight, so the key stays held until all
are settled.

Cost: every call is amortised O(1), except ``behind`` and ``line``, which are linear in the queue; a
held key costs its own size and about 170 bytes, a waiting offset 130.  The caller
bounds both by what it leases.

Keys are not hashed to a bounded number of queues: two keys never share one.  Where the
waiting messages are kept is up to the caller.
"""

from collections import deque


class KeyGate:
    """Which offset holds each key, and which wait behind it."""

    def __init__(self) -> None:
        self.waiting = 0
        self._holders: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}  # Of the holders and of those in line.
        self._lines: dict[bytes, deque[int]] = {}  # May hold offsets that were settled in line.

    def admit(self, offset: int, key: bytes) -> bool:
        """Whether ``offset`` may go now, holding its key; if not, it waits in line.

        Asking again for an offset that holds its key, as for a retry, says yes
        again; for one that waits, it says no and changes nothing.
        """
        holder = self._holders.get(key)
        if holder is None:
            self._holders[key] = offset
            self._keys[offset] = key
            return True
        if holder == offset:
            return True
        if offset not in self._keys:
            self._keys[offset] = key
            line = self._lines.get(key)
            if line is None:
                line = deque()
                self._lines[key] = line
            line.append(offset)
            self.waiting += 1
        return False

    def done(self, offset: int) -> int:
        """``offset`` is settled; return the offset that holds its key now and may go, or -1.

        An offset that was settled while it waited just leaves the line.
        """
        key = self._keys.pop(offset, None)
        if key is None:
            return -1
        if self._holders[key] != offset:
            self.waiting -= 1
            return -1
        line = self._lines.get(key)
        while line:
            follower = line.popleft()
            if not line:
                del self._lines[key]
            if follower in self._keys:
                self._holders[key] = follower
                self.waiting -= 1
                return follower
        del self._holders[key]
        return -1

    def holds(self, offset: int) -> bool:
        """Whether ``offset`` holds its key."""
        key = self._keys.get(offset)
        return key is not None and self._holders[key] == offset

    def key_of(self, offset: int) -> bytes | None:
        """The key of an offset that holds it or waits; None of any other."""
        return self._keys.get(offset)

    def line(self, offset: int) -> list[int]:
        """The offsets that wait behind ``offset``, in order; none if it does not hold its key."""
        if not self.holds(offset):
            return []
        return [follower for follower in self._lines.get(self._keys[offset], ()) if follower in self._keys]

    def behind(self, offset: int) -> int:
        """How many wait in the line of the key that ``offset`` holds; 0 if it holds none."""
        if not self.holds(offset):
            return 0
        count = 0
        for follower in self._lines.get(self._keys[offset], ()):
            count += follower in self._keys  # Else it was settled in line.
        return count

    def clear(self) -> None:
        """Forget everything, as after a seek."""
        self.waiting = 0
        self._holders.clear()
        self._keys.clear()
        self._lines.clear()
