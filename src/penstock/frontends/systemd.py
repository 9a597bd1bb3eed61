"""Tells a service manager what the server is doing: the protocol of ``sd_notify``.

    READY=1       connections are accepted
    STOPPING=1    the end has begun; ``server.stop_timeout`` limits how long it takes

The variable NOTIFY_SOCKET names a datagram socket; a name that begins with ``@`` is abstract.  Without the
variable nothing is sent.  A manager that is not there any more does not stop the server: it is logged.
"""

import logging
import socket
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"

logger = logging.getLogger("penstock")


def notify(state: str, environ: Mapping[str, str]) -> None:
    """Send a state to the service manager, if there is one."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as made:
            made.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("could not notify the service manager of %s: %s", state, error)
