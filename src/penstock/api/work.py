"""What an operation returns: work that was begun, and that a driver runs to its end."""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")

Work = Generator[Any, Any, T]
