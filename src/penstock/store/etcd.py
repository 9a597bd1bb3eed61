"""A store in etcd, for three self-hosted machines: quorum and fail-over are built in.

Uses etcd's JSON gateway (``/v3/kv/...``) with the standard library: a request is a POST with base64 in JSON.
``create`` is a transaction that puts the key if its create revision is 0.  Name every endpoint:
``etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/penstock``; a request goes to the next one when an endpoint
does not answer.  ``etcds://`` uses TLS.  User and password go before the hosts.

etcd is meant for small data: an object has at most 1 MiB here (etcd's default limit for a request is 1.5
MiB), and old revisions must be compacted, which ``compact`` does.  Use a dedicated etcd, because compaction
removes the history of other users, too.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.errors import StoreRefused, StoreUnavailable
from penstock.store.base import REQUEST_S, check_name
from penstock.store.idle import IdleConnections

OBJECT_BYTES_MAX: Final = 1 << 20
LIST_PAGE: Final = 1000
UNAUTHENTICATED: Final = 16  # gRPC status codes, which the gateway puts into its errors.
TEMPORARY: Final = {1, 4, 8, 10, 13, 14}  # Cancelled, deadline, exhausted, aborted, internal, unavailable.


class EtcdStore:
    object_bytes_max = OBJECT_BYTES_MAX

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        self._user, _, self._password = (unquote(part) for part in login.partition(":"))
        self._endpoints = hosts.split(",")
        self._tls = parts.scheme == "etcds"
        self._prefix = parts.path.strip("/") + "/" if parts.path.strip("/") else ""
        self.url = f"{parts.scheme}://{hosts}{parts.path}"
        self._token = ""
        self._index = 0  # The endpoint that answered last.
        self._idle: IdleConnections[HTTPConnection] = IdleConnections()
        self._call("/v3/maintenance/status", {})

    def create(self, name: str, data: bytes) -> bool:
        key = self._key(name)
        compare = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        put = {"request_put": {"key": key, "value": _encoded(data)}}
        answer = self._call("/v3/kv/txn", {"compare": [compare], "success": [put]})
        return bool(answer.get("succeeded", False))

    def get(self, name: str) -> bytes | None:
        found = self._call("/v3/kv/range", {"key": self._key(name)}).get("kvs", [])
        return b64decode(found[0].get("value", "")) if found else None

    def list(self, prefix: str) -> Iterator[str]:
        start = (self._prefix + prefix).encode()
        end = _encoded(start[:-1] + bytes([start[-1] + 1])) if start else _encoded(b"\0")
        key = start or b"\0"
        while True:
            asked = {"key": _encoded(key), "range_end": end, "limit": str(LIST_PAGE), "keys_only": True}
            answer = self._call("/v3/kv/range", asked)
            names = [b64decode(each["key"]) for each in answer.get("kvs", [])]
            yield from (name.decode()[len(self._prefix) :] for name in names)
            if not answer.get("more"):
                return
            key = names[-1] + b"\0"

    def delete(self, name: str) -> None:
        self._call("/v3/kv/deleterange", {"key": self._key(name)})

    def overwrite(self, name: str, data: bytes) -> None:
        self._call("/v3/kv/put", {"key": self._key(name), "value": _encoded(data)})

    def compact(self) -> None:
        """Remove all revisions but the latest, so that etcd's file does not grow with every overwrite."""
        answer = self._call("/v3/kv/range", {"key": _encoded(b"\0"), "count_only": True})
        revision = answer["header"]["revision"]
        try:
            self._call("/v3/kv/compaction", {"revision": revision})
        except StoreRefused as refused:
            if "compacted" not in refused.why:  # Another node was first.
                raise

    def close(self) -> None:
        self._idle.close()

    def _key(self, name: str) -> str:
        return _encoded((self._prefix + check_name(name)).encode())

    def _call(self, path: str, body: dict[str, Any]) -> Any:
        """Send a request to the endpoints in turn, until one answers."""
        why = ""
        for _ in self._endpoints:
            endpoint = self._endpoints[self._index % len(self._endpoints)]
            try:
                if self._user and not self._token:
                    login = {"name": self._user, "password": self._password}
                    self._token = self._post(endpoint, "/v3/auth/authenticate", login)["token"]
                return self._post(endpoint, path, body)
            except (OSError, HTTPException, ValueError) as error:
                why = f"{endpoint}: {str(error) or type(error).__name__}"
                self._index += 1
                self.close()  # They lead to the unresponsive endpoint.
                if isinstance(error, TimeoutError):
                    break  # The caller's time is over; it repeats the same request (rule 2).
        raise StoreUnavailable(store=self.url, why=why)

    def _post(self, endpoint: str, path: str, body: dict[str, Any]) -> Any:
        kind = HTTPSConnection if self._tls else HTTPConnection
        connection = self._idle.take(lambda: kind(endpoint, timeout=REQUEST_S))
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": self._token} if self._token else {}
        )
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        if response.status != HTTPStatus.OK:
            raise self._error(answer)
        return answer

    def _error(self, answer: dict[str, Any]) -> StoreRefused | StoreUnavailable:
        code, why = int(answer.get("code", 0)), str(answer.get("message") or answer.get("error"))
        if code == UNAUTHENTICATED:
            self._token = ""  # The token has expired; the next call gets a new one.
        kind = StoreUnavailable if code in TEMPORARY else StoreRefused
        return kind(store=self.url, why=why)


def _encoded(data: bytes) -> str:
    return b64encode(data).decode()
