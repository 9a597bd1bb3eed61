"""The opcodes of KQueue's protocol; its frames are those of ``transport/frames.py``, and its bodies JSON."""

from typing import Final

PUB: Final = 0x01
SUB: Final = 0x02
ACK: Final = 0x03
PING: Final = 0x04
DELIVERY: Final = 0x05  # Server to client.

COMMANDS: Final = {PUB: "PUB", SUB: "SUB", ACK: "ACK", PING: "PING"}
