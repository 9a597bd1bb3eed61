"""Opens the store of a URL."""

from typing import Final
from urllib.parse import urlsplit

from penstock.clock import Clock
from penstock.errors import InvalidValue
from penstock.store import objects
from penstock.store.base import Store
from penstock.store.directory import DirectoryStore
from penstock.store.etcd import EtcdStore
from penstock.store.objects import ObjectStore
from penstock.store.postgresql import PostgresqlStore
from penstock.types import shown_url

EXAMPLES: Final = (
    "file:///var/lib/penstock, s3://bucket/path, gs://, az://, postgresql://host/db or etcd://host:2379"
)


def open_store(url: str, clock: Clock) -> Store:
    """Connect to the store of a URL; raise StoreRefused or StoreUnavailable if that is impossible."""
    parts = urlsplit(url)
    match parts.scheme:
        case "file" if parts.path.startswith("/") and not parts.netloc:
            return DirectoryStore(parts.path, clock)
        case "postgresql" | "postgres":
            return PostgresqlStore(url)
        case "etcd" | "etcds" if parts.netloc:
            return EtcdStore(url)
        case scheme if scheme in objects.SCHEMES and parts.netloc:
            return ObjectStore(url)
    raise InvalidValue(name="store", value=shown_url(url), why=f"use {EXAMPLES}")
