"""AWS Signature Version 4: what a request is signed with, and whether the signature fits.

    Authorization: AWS4-HMAC-SHA256 Credential=<key id>/<date>/<region>/sqs/aws4_request,
                   SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=<hex>

    signing key      HMAC(HMAC(HMAC(HMAC("AWS4" + secret, date), region), "sqs"), "aws4_request")
    string to sign   algorithm, time, scope, SHA-256 of the canonical request
    canonical        method, path, query, the signed headers, their names, SHA-256 of the body

The hash of the body is always computed from the body that arrived, whatever a header says, so a signature
covers all of a request.  The host must be among the signed headers, and every header ``x-amz-*`` of the
request, because ``x-amz-target`` names the action.  Comparing takes the same time wherever two signatures
differ.  Presigned URLs, which have the signature in the query, are not accepted.
"""

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SKEW_MS_MAX: Final = 15 * 60 * 1000  # As the service has it: a request that was recorded is of no use later.
HEADERS_MAX: Final = 50  # That are signed.
AMZ: Final = b"x-amz-"
COVERED: Final = frozenset({b"x-amz-date", b"x-amz-content-sha256"})  # Part of the text to sign; never used.
_TIME: Final = "%Y%m%dT%H%M%SZ"


class Authorization(NamedTuple):
    """The header of a signed request."""

    key_id: str
    date: str
    region: str
    service: str
    headers: list[str]
    signature: str

    @property
    def scope(self) -> str:
        """What the signing key is for."""
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


class SignedRequest(NamedTuple):
    """What of an HTTP request is signed."""

    method: str
    path: str  # As it was sent, without the query.
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes


def read_authorization(text: str) -> Authorization | None:
    """The header Authorization, if it is a signature of this kind."""
    algorithm, _, rest = text.strip().partition(" ")
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    scope = fields.get("Credential", "").rsplit("/", 4)
    headers = fields.get("SignedHeaders", "").split(";")
    complete = len(scope) == 5 and scope[4] == "aws4_request" and len(headers) <= HEADERS_MAX
    if algorithm != ALGORITHM or not complete or not fields.get("Signature"):
        return None
    key_id, date, region, service, _ = scope
    return Authorization(key_id, date, region, service, headers, fields["Signature"])


def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def is_signed_by(key: bytes, shown: Authorization, request: SignedRequest) -> bool:
    """Whether the request was signed with a signing key."""
    if not _covers(shown.headers, request):
        return False
    time = request.headers.get(b"x-amz-date", b"").decode("latin-1")
    hashed = sha256(canonical(shown.headers, request)).hexdigest()
    text = "\n".join((ALGORITHM, time, shown.scope, hashed))
    wanted = hmac.digest(key, text.encode("utf-8", "surrogateescape"), "sha256").hex()
    return hmac.compare_digest(wanted.encode(), shown.signature.encode("utf-8", "replace"))


def _covers(names: list[str], request: SignedRequest) -> bool:
    """Whether all headers are signed that a request must not be given later."""
    needed = {name for name in request.headers if name.startswith(AMZ)} - COVERED
    return {b"host", *needed} <= {name.encode("utf-8", "replace") for name in names}


def canonical(names: list[str], request: SignedRequest) -> bytes:
    """The request in the form that is hashed."""
    headers = "".join(f"{name}:{_value(request.headers, name)}\n" for name in names)
    parts = (
        request.method,
        quote(unquote(request.path, errors="surrogateescape"), safe="/-_.~", errors="surrogateescape") or "/",
        _query(request.query),
        headers,
        ";".join(names),
        sha256(request.body).hexdigest(),
    )
    return "\n".join(parts).encode("utf-8", "surrogateescape")


def signed_ms(headers: Mapping[bytes, bytes]) -> int | None:
    """When a request was signed, in milliseconds since 1970; None if it does not say."""
    try:
        time = datetime.strptime(headers.get(b"x-amz-date", b"").decode("latin-1"), _TIME)  # noqa: DTZ007 - UTC below.
    except ValueError:
        return None
    return int(time.replace(tzinfo=UTC).timestamp() * 1000)


def _value(headers: Mapping[bytes, bytes], name: str) -> str:
    return " ".join(headers.get(name.encode("utf-8", "replace"), b"").decode("latin-1").split())


def _query(text: str) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(text, keep_blank_values=True)
    )
    return "&".join(f"{name}={value}" for name, value in pairs)
