"""TLS for the listeners of a server: a certificate and its key, read once, at the start.

Every listener has it or none.  TLS 1.2 and later, with the ciphers that Python
trusts; clients show a key or a password, not a certificate.
"""

import logging
import ssl
from pathlib import Path
from typing import Final

from penstock.config.server import TlsSettings
from penstock.errors import InvalidConfiguration
from penstock.log.files import OTHERS, SystemFiles

HANDSHAKE_S: Final = 10.0  # A stranger who does not finish it in time is cut off.
SHUTDOWN_S: Final = 5.0  # For a client to say goodbye.

logger = logging.getLogger("penstock")


def server_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """The TLS context of the listeners; None without encryption."""
    if not settings.certificate:
        return None
    for name in ("certificate", "key"):
        path = getattr(settings, name)
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise _unusable(f"tls.{name} {path}: {str(error.strerror).lower()}") from None
    mode = SystemFiles().mode(settings.key)
    if mode & OTHERS:
        logger.warning("tls.key %s can be read by other users (mode %03o): chmod 600", settings.key, mode)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key with a passphrase is refused; without this, Python would ask for it at the terminal.
        context.load_cert_chain(settings.certificate, settings.key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error)
        words = str(why).lower().replace("_", " ")
        pair = f"tls.certificate {settings.certificate}, tls.key {settings.key}"
        raise _unusable(f"{pair}: {words}; both are PEM, a pair, without a passphrase") from None
    return context


def _unusable(problem: str) -> InvalidConfiguration:
    return InvalidConfiguration(problems=f"  {problem}")
