"""What a server is told: to ask for keys, whom to let in without, and the first key."""

from pathlib import Path
from typing import Any

import pytest

from penstock import aio
from penstock.config.loading import load
from penstock.config.server import ListenSettings, SecuritySettings, ServerConfig, ServerSettings
from penstock.errors import InvalidConfiguration, Unauthenticated
from penstock.frontends.serve import Server
from penstock.model.access import Grant


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.168.1.5", "broker.example.com"])
def test_an_address_that_others_reach_is_refused_without_authentication(host: str) -> None:
    words = r"listen.native \(--native\) can be reached from other machines.*--insecure"
    with pytest.raises(InvalidConfiguration, match=words):
        load(flags={"listen.native": f"{host}:7070"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
def test_an_address_of_this_machine_is_not(host: str) -> None:
    load(flags={"listen.native": f"{host}:7070"})


@pytest.mark.parametrize("setting", ["security.insecure", "security.authentication"])
def test_who_says_so_may_have_it(setting: str) -> None:
    section, _, name = setting.partition(".")

    loaded = load(text=f"[{section}]\n{name} = true", flags={"listen.native": "0.0.0.0:7070"})

    assert loaded.config.listen.native == "0.0.0.0:7070"


def test_a_certificate_has_a_key() -> None:
    with pytest.raises(InvalidConfiguration, match=r"tls.certificate and tls.key belong together"):
        load(text='[tls]\ncertificate = "c.pem"')


def config(data: Any, **security: Any) -> ServerConfig:
    return ServerConfig(
        server=ServerSettings(data=str(data)),
        listen=ListenSettings(native="0", text="off", status="off", http="off", kafka="off"),
        security=SecuritySettings(**security),
    )


async def test_the_first_start_makes_a_key_for_an_admin_and_the_second_none(tmp_path: Path) -> None:
    async with await Server.open(config(tmp_path, authentication=True)) as server:
        assert server.first_key is not None
        key = server.first_key.key
    async with await Server.open(config(tmp_path, authentication=True)) as server:
        assert server.first_key is None
        url = f"penstock://127.0.0.1:{server.addresses['native'][1]}"
        async with aio.connect(url, key=key) as broker:
            await broker.create_topic("orders")
            assert [info.name for info in await broker.keys()] == ["first-admin"]
        with pytest.raises(Unauthenticated):
            await aio.connect(url).start()


async def test_a_start_without_an_admin_makes_one(tmp_path: Path) -> None:
    async with await Server.open(config(tmp_path)) as server:
        await server.broker.create_key("billing", [Grant(role="admin", topics=["orders*"])])

    async with await Server.open(config(tmp_path, authentication=True)) as server:
        assert server.first_key is not None
    async with await Server.open(config(tmp_path, authentication=True)) as server:
        assert server.first_key is None


async def test_without_authentication_there_is_no_key_and_nobody_is_asked(tmp_path: Path) -> None:
    async with await Server.open(config(tmp_path)) as server:
        assert server.first_key is None
        url = f"penstock://127.0.0.1:{server.addresses['native'][1]}"
        async with aio.connect(url, key="pk_not_needed") as broker:
            await broker.create_topic("orders")

    assert not (tmp_path / "access.json").exists()
    assert not (tmp_path / "audit.log").exists()


async def test_what_admins_do_is_in_the_audit_log(tmp_path: Path) -> None:
    async with await Server.open(config(tmp_path, authentication=True)) as server:
        assert server.first_key is not None
        url = f"penstock://127.0.0.1:{server.addresses['native'][1]}"
        async with aio.connect(url, key=server.first_key.key) as broker:
            await broker.create_topic("orders")
            await broker.delete_topic("orders")
        who = f"key {server.first_key.id} (first-admin)"

    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert len(lines) == 2
    assert all(f'"who":"{who}"' in line for line in lines)
    assert '"operation":"delete_topic","on":"orders","outcome":"done"' in lines[1]
