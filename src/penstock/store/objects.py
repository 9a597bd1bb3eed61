"""A store in a bucket: S3, Google Cloud Storage, Azure Blob Storage, and services compatible with S3.

``create`` is a conditional PUT (``If-None-Match: *``).  Credentials and endpoints come from the usual
variables of the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``,
``AZURE_STORAGE_ACCOUNT_NAME`` ...), or as options in the URL: ``s3://bucket/path?region=eu-central-1``.

obstore must not retry by itself: if the first attempt of a PUT succeeded, the second would be reported as
*exists* (the caller would find out by comparing, rule 2, but the latency would be hidden).  Uploads are
never split into parts, because a multipart upload is not conditional on every service.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from penstock.errors import ExtraMissing, StoreRefused, StoreUnavailable
from penstock.store.base import OBJECT_BYTES_MAX, REQUEST_S, check_name
from penstock.types import shown_url

SCHEMES: Final = ("s3", "s3a", "gs", "az", "abfss")
CONNECT_S: Final = 5
INSTANCE_METADATA: Final = "169.254.169.254"  # The source of a role's credentials, if there are no others.


class ObjectStore:
    object_bytes_max = OBJECT_BYTES_MAX

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore import store as services
        except ModuleNotFoundError:
            raise ExtraMissing(what="obstore", extra="cluster") from None
        parts = urlsplit(url)
        address = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self.url = shown_url(address)
        try:
            options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        except ValueError:
            written = shown_url(f"?{parts.query}")
            why = f"write the options as ?region=eu-central-1&endpoint=..., not {written!r}"
            raise StoreRefused(store=self.url, why=why) from None
        self._obstore: Any = obstore
        allow_http = options.pop("allow_http", "") == "true" or "http://" in options.get("endpoint", "")
        try:
            from_url: Any = services.from_url  # Its overloads want the options of one service.
            self._store: Any = from_url(
                address.rstrip("/"),
                config=options,
                client_options={
                    "timeout": timedelta(seconds=REQUEST_S),
                    "connect_timeout": timedelta(seconds=CONNECT_S),
                    "allow_http": allow_http or _environment_allows_http(),
                },
                retry_config={
                    "max_retries": 0,
                    "retry_timeout": timedelta(seconds=REQUEST_S),
                },
            )
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise StoreRefused(store=self.url, why=_reason(error)) from error

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._obstore.put(self._store, check_name(name), data, mode="create", use_multipart=False)
        except self._obstore.exceptions.AlreadyExistsError:
            return False
        except self._obstore.exceptions.BaseError as error:
            raise self._error(error) from error
        return True

    def get(self, name: str) -> bytes | None:
        try:
            return bytes(self._obstore.get(self._store, check_name(name)).bytes())
        except (self._obstore.exceptions.NotFoundError, FileNotFoundError):
            return None
        except self._obstore.exceptions.BaseError as error:
            raise self._error(error) from error

    def list(self, prefix: str) -> Iterator[str]:
        # Services list by complete path segments; the rest of the prefix is compared here.
        folder = prefix.rpartition("/")[0]
        try:
            for page in self._obstore.list(self._store, folder or None):
                yield from (entry["path"] for entry in page if entry["path"].startswith(prefix))
        except self._obstore.exceptions.BaseError as error:
            raise self._error(error) from error

    def delete(self, name: str) -> None:
        try:
            self._obstore.delete(self._store, check_name(name))
        except (self._obstore.exceptions.NotFoundError, FileNotFoundError):
            pass
        except self._obstore.exceptions.BaseError as error:
            raise self._error(error) from error

    def overwrite(self, name: str, data: bytes) -> None:
        try:
            self._obstore.put(self._store, check_name(name), data, use_multipart=False)
        except self._obstore.exceptions.BaseError as error:
            raise self._error(error) from error

    def close(self) -> None:
        pass

    def _error(self, error: Exception) -> StoreRefused | StoreUnavailable:
        known = self._obstore.exceptions
        permanent = (
            known.PermissionDeniedError, known.UnauthenticatedError, known.UnknownConfigurationKeyError,
            known.NotSupportedError, known.InvalidPathError, known.NotFoundError,  # The bucket.
        )  # fmt: skip
        why = _reason(error)
        if INSTANCE_METADATA in why:
            why = "there are no credentials; set those of the environment, or use an instance role"
            return StoreRefused(store=self.url, why=why)
        if isinstance(error, (known.PermissionDeniedError, known.UnauthenticatedError)):
            status = why.rpartition("status code: ")[2]
            why = (
                f"it does not accept the credentials, or they may not read, write, list and delete ({status})"
            )
        kind = StoreRefused if isinstance(error, permanent) else StoreUnavailable
        return kind(store=self.url, why=why)


def _reason(error: Exception) -> str:
    """The first line of an obstore error, without the service's XML; the rest is debugging output."""
    return str(error).strip().partition("\n")[0].partition(": <?xml")[0][:300]


def _environment_allows_http() -> bool:
    """Whether the endpoint that the environment names is one without TLS."""
    import os

    names = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3")
    return any(os.environ.get(name, "").startswith("http://") for name in names)
