"""Unix sockets: the user at the other end."""

import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("3i")  # Of a peer: process, user, group.


def is_same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket runs as the same user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(found)
    return bool(user == os.getuid())
