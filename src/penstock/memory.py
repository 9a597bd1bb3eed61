"""How the process keeps memory that it frees, and what the garbage collector looks at.

Batches of some megabytes come and go: published, fetched, sent.  By default,
glibc gives such blocks back to the system each time, and the kernel clears
every page again when they are asked for.  That costs a server a third of its
time, and a client that fetches more than half.
"""

import ctypes
import gc
from typing import Final

# glibc's parameters (malloc.h): M_MMAP_THRESHOLD, larger blocks go back at once; M_TRIM_THRESHOLD, what is
# kept beyond the blocks in use.  The first is twice a fetch, the second a few of them.
MALLOC: Final = ((-3, 8 << 20), (-1, 32 << 20))


def keep_memory() -> None:
    """Have glibc keep some memory that is freed; elsewhere nothing changes.  For a process of our own."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, size in MALLOC:
            mallopt(parameter, size)


def pass_over() -> None:
    """Have the garbage collector leave out all there is now, which is to stay.  For a process of our own.

    It stops everything while it looks, for two seconds where there are a million objects, and it looks again
    whenever there are a quarter more.  What is left out is freed all the same when nothing refers to it; only
    rings of objects are not, so removing such an object must break its references.
    """
    gc.collect()
    gc.freeze()
