"""Verifies the signature of a request (AWS Signature Version 4).

The access key id is the id of an API key, and the secret access key is derived from the key's secret
(``signing_secret``).  The server has it only for keys that were created to sign requests
(docs/security.md).
"""

from typing import Final

from penstock.errors import Unauthenticated
from penstock.frontends.security.identity import Identity
from penstock.frontends.sqs.call import SqsShared
from penstock.frontends.sqs.errors import SqsError
from penstock.frontends.sqs.names import is_region
from penstock.wire.sqs.signatures import (
    SKEW_MS_MAX,
    Authorization,
    SignedRequest,
    is_signed_by,
    signed_ms,
    signing_key,
)

SIGNING_KEYS_MAX: Final = 10_000  # Cached signing keys; one for each key, day and region.
SERVICE: Final = "sqs"


def identify(shared: SqsShared, shown: Authorization | None, request: SignedRequest) -> Identity:
    """The key that has signed a request; an error of the service if none has."""
    if shown is None:
        message = "Request must contain a signature that conforms to AWS standards."
        raise SqsError("MissingAuthenticationToken", message, 403)
    _check_time(shared, shown, request)
    secret = shared.gateway.signing_secret(shown.key_id)
    if secret is None:
        raise SqsError("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
    named = (secret, shown.date, shown.region)
    key = shared.signing_keys.get(named) or signing_key(secret, *named[1:], SERVICE)
    if not is_signed_by(key, shown, request):
        raise _mismatch()
    _remember(shared, named, key)  # Only now that it is verified: anyone can name a region.
    try:
        return shared.gateway.signer(shown.key_id)
    except Unauthenticated:
        raise _mismatch() from None


def _check_time(shared: SqsShared, shown: Authorization, request: SignedRequest) -> None:
    at_ms = signed_ms(request.headers)
    if at_ms is None or shown.service != SERVICE:
        raise _mismatch()
    date = request.headers[b"x-amz-date"].decode("latin-1")[:8]
    if shown.date != date:
        raise _mismatch()
    if abs(shared.clock.wall_ms() - at_ms) > SKEW_MS_MAX:
        raise SqsError(
            "RequestExpired", "Signature expired: the request is more than 15 minutes old, or early.", 403
        )


def _remember(shared: SqsShared, named: tuple[str, str, str], key: bytes) -> None:
    if named in shared.signing_keys or not is_region(named[2]):
        return
    if len(shared.signing_keys) >= SIGNING_KEYS_MAX:
        shared.signing_keys.clear()
    shared.signing_keys[named] = key


def _mismatch() -> SqsError:
    message = (
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret"
        " Access Key and signing method."
    )
    return SqsError("SignatureDoesNotMatch", message, 403)
