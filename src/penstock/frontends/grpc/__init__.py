"""The gRPC API: publish, consume and administer with stubs of any language.

The libraries are an extra, so the first import of this package says what to install.
"""

from importlib.util import find_spec

from penstock.errors import ExtraMissing

for _name in ("grpc", "grpc_health", "grpc_reflection", "google.rpc"):
    try:
        _found = find_spec(_name) is not None
    except ModuleNotFoundError:  # The package above it.
        _found = False
    if not _found:
        raise ExtraMissing(what="gRPC", extra="grpc")
