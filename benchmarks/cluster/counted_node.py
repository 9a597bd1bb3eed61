"""The command ``penstock`` with a count of its requests to the store, in a file that is its first argument.

The file grows by one line for each request: the kind, and how many bytes were read.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from penstock.cli.main import main
from penstock.cluster.store import ThreadedStore


def count(path: str) -> None:
    """Have every request written down."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def request(store: ThreadedStore, *arguments: Any) -> Any:
            result = await method(store, *arguments)
            read = len(result) if name == "get" and result is not None else 0
            os.write(descriptor, f"{name} {read}\n".encode())
            return result

        return request

    for name in ("create", "get", "list", "delete", "overwrite"):
        setattr(ThreadedStore, name, counted(name, getattr(ThreadedStore, name)))


if __name__ == "__main__":
    count(sys.argv.pop(1))
    main()
