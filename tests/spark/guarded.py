"""A server that asks for keys."""

from tests.server.process import Server

import penstock


class Guarded:
    """A server that asks for keys, and an admin's client of it."""

    def __init__(self, server: Server, admin: penstock.Broker) -> None:
        self.servers = f"127.0.0.1:{server.ports['native']}"
        self.admin = admin
        self.lake = str(server.data / "lake")

    def key(self, *grants: str) -> str:
        """A new key; a grant is written role:topic, and for consumers role:topic:group."""
        parts = [grant.split(":") for grant in grants]
        made = [
            penstock.Grant(role=role, topics=[topic], groups=groups or ["*"])  # type: ignore[arg-type]
            for role, topic, *groups in parts
        ]
        return self.admin.create_key("test", made).key
