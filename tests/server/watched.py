"""``penstock serve`` with a finer watchdog: it logs work beyond ``BUSY_MS`` without a break, with its stack.

    python tests/server/watched.py serve --data DIR ...

The production watchdog beats every 50 ms and tolerates several beats of work, because it must cost nothing.
This one beats every 5 ms, from the moment the loop runs to its end, so opening and closing a directory count.
What counts is the processor time of the loop's thread: other work on the machine does not.  The time that the
kernel takes to create a file still differs threefold from one hour to the next on a shared machine, so only a
soak insists on 50 ms, and other runs on four times that: work that does not give way takes seconds here.
"""

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

from penstock.broker.health.loop_lag import STALL_MS, Lag
from penstock.cli.main import main
from penstock.frontends import serve, watchdog

BEAT_MS = 5
BUSY_MS = STALL_MS * (1 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 4)


def look(watching: watchdog.Watchdog) -> None:
    """Print the stack of the loop's thread while a stall lasts; in a thread of its own."""
    loop_thread = threading.main_thread().ident
    assert loop_thread is not None
    clock = time.pthread_getcpuclockid(loop_thread)
    seen = 0
    while True:
        time.sleep(BEAT_MS / 1000)
        began = watching._worked_ns
        worked_ms = (time.clock_gettime_ns(clock) - began) / 1e6
        if began != seen and worked_ms > BUSY_MS:
            seen = began
            stack = traceback.format_stack(sys._current_frames()[loop_thread])
            sys.stderr.write(f"after {worked_ms:.0f} ms of work:\n" + "".join(stack[-8:]))


def watched(new_loop: Callable[[], asyncio.AbstractEventLoop] | None) -> asyncio.AbstractEventLoop:
    loop = (new_loop or asyncio.new_event_loop)()
    watching = watchdog.Watchdog(Lag())
    loop.call_soon(watching.start)
    threading.Thread(target=look, args=(watching,), daemon=True).start()
    return loop


if __name__ == "__main__":
    watchdog.BEAT_S = BEAT_MS / 1000  # type: ignore[misc]
    watchdog.BUSY_MS = BUSY_MS + BEAT_MS  # type: ignore[misc]
    watchdog.LOGGED_EVERY_MS = 0  # type: ignore[misc]
    new_loop = serve.loop_factory()
    serve.loop_factory = lambda: lambda: watched(new_loop)
    sys.exit(main())
