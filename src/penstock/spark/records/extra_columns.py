"""The columns that a reader of messages can ask for besides those of ``schema.ROW``.

Imports no Arrow: options are checked by commands that start without it.
"""

from typing import Final

HEADER_LIST: Final = "header_list"  # Every header, including those whose name repeats.
# And their types.
EXTRA_COLUMNS: Final = {
    "id": "string",
    HEADER_LIST: "array<struct<key:string,value:binary>>",
    "attempts": "int",
    "state": "string",
    "horizon": "timestamp",
}
STATE_COLUMNS: Final = ("attempts", "state")  # These need a group.
STREAM_COLUMNS: Final = ("horizon",)  # And these a stream.
