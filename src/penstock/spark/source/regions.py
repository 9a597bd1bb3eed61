"""The rows within any of some bounds.

    where offset < 10 or offset > 700          (offset < 10), (offset > 700)

Spark 4.3 does not tell a Python source of ``or``.  ``queries/narrowing.py`` finds it in the plan of a query,
and passes it on as the option ``within``.  Spark evaluates the conditions itself, so a reader may return
more rows.
"""

from collections.abc import Iterable
from itertools import product
from typing import Final

import msgspec

from penstock.spark.source.filters import Bounds

Region = tuple[Bounds, ...]

EVERYWHERE: Final[Region] = (Bounds(),)
BOUNDS_MAX: Final = 100  # Of one region; each may be a request of its own, so more are cheaper in one go.


def encode(region: Region) -> str:
    return msgspec.json.encode(region).decode()


def decode(text: str) -> Region:
    return msgspec.json.decode(text, type=Region)


def either(regions: Iterable[Region]) -> Region:
    """The rows of any region."""
    found = tuple(dict.fromkeys(bounds for region in regions for bounds in region))
    return EVERYWHERE if Bounds() in found or len(found) > BOUNDS_MAX else found


def both(one: Region, other: Region) -> Region:
    """The rows that are in both regions; if that is too much to say, those of the shorter one."""
    if len(one) * len(other) > BOUNDS_MAX:
        return min(one, other, key=len)
    return either([tuple(left.both(right) for left, right in product(one, other))])
