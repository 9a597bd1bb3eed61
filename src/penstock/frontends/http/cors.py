"""CORS headers for pages of allowed origins; ``Origins`` decides which are allowed."""

from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from penstock.frontends.origins import Origins

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
HEADERS: Final = ("authorization", "content-type", "idempotency-key", "traceparent", "tracestate")
EXPOSED: Final = ("retry-after", "www-authenticate", "allow")


def with_cors(app: ASGIApp, origins: Origins) -> ASGIApp:
    """Wrap the application so that pages of allowed origins can read its responses."""
    if not origins.cors:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins.cors,
        allow_methods=METHODS,
        allow_headers=HEADERS,
        expose_headers=EXPOSED,
    )
