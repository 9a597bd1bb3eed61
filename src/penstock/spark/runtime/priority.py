"""Requests long scheduler slices for a local Spark, so that a broker on the same host is not delayed.

    nice 10              set by the wrapper that starts Java (``java.py``): a tenth of a contended core
    slices of 100 ms     set here, and inherited by the JVM, its threads and its Python workers

Since Linux 6.12 a thread with a shorter slice that wakes up preempts one with a longer
slice at once, instead of at the next tick (up to 4 ms).  Spark's share of the CPU does
not change.

Neither Python nor the C libraries of 2024 wrap ``sched_setattr``, so it is called by
number.  On other systems and older kernels nothing changes.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SLICE_NS: Final = 100_000_000  # The longest that Linux gives.
CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}  # sched_setattr and sched_getattr.
ATTRIBUTES: Final = struct.Struct("IIQiIQQQ")  # Size, policy, flags, nice, priority, slice, ....
RUNTIME: Final = 5  # Where the slice is in these; the kernel calls it so.


@contextmanager
def long_time_slices() -> Iterator[None]:
    """Request long slices for this thread within the block, and for the processes started there."""
    before = attributes()
    if before is None or before[1] not in (os.SCHED_OTHER, os.SCHED_BATCH):
        yield
        return
    _set(*before[:RUNTIME], SLICE_NS, *before[RUNTIME + 1 :])
    try:
        yield
    finally:
        _set(*before)


def attributes() -> tuple[int, ...] | None:
    """Scheduling attributes of this thread; None if they are not available."""
    if not sys.platform.startswith("linux") or platform.machine() not in CALLS:
        return None
    _, number = CALLS[platform.machine()]
    room = ctypes.create_string_buffer(ATTRIBUTES.size)
    if ctypes.CDLL(None).syscall(number, 0, room, ATTRIBUTES.size, 0):
        return None
    return ATTRIBUTES.unpack(room.raw)


def _set(*attributes: int) -> None:
    number, _ = CALLS[platform.machine()]
    ctypes.CDLL(None).syscall(number, 0, ATTRIBUTES.pack(*attributes), 0)  # Refused: it stays as it was.
