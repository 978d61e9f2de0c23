import asyncio
import os
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from trunkline.app.doctor import AT_ONCE, examine
from trunkline.ports.backend import Finding
from trunkline.settings import from_document
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.fake_model import FakeModel

ECHO = {"acme/echo": {"name": "Echo", "backend": {"kind": "echo"}}}
KEYS = {"me": {"key": "0123456789abcdef0123"}}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


async def found(
    tmp_path: Path, part: str, *, agents: dict[str, Any] = ECHO, **tables: Any
) -> list[Finding]:
    document = {
        "server": {"port": free_port()},
        "store": {"path": str(tmp_path / "x.db")},
        "agents": agents,
    } | tables
    settings = from_document(document, folder=tmp_path)
    return [one.finding async for one in examine(settings) if one.part == part]


async def test_a_free_port_and_one_that_is_taken(tmp_path: Path) -> None:
    [free] = await found(tmp_path, "server")
    assert free.level == "ok"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [finding] = await found(tmp_path, "server", server={"port": port})
    assert finding.level == "warning"
    assert finding.what.startswith(f"127.0.0.1:{port} is not available: ")
    assert "while the gateway runs" in finding.remedy


@pytest.mark.parametrize(
    ("server", "level", "what"),
    [
        ({"host": "0.0.0.0"}, "warning", "cards will name 127.0.0.1"),
        ({"public_url": "http://192.0.2.1"}, "warning", "is not encrypted"),
        ({"public_url": "https://no-such-name.invalid"}, "warning", "is not known here"),
        ({"public_url": "https://192.0.2.1"}, "ok", "cards name https://192.0.2.1"),
    ],
)
async def test_addresses(server: dict[str, str], level: str, what: str, tmp_path: Path) -> None:
    given = {"port": free_port(), **server}
    *_, last = await found(tmp_path, "server", server=given, auth={"keys": KEYS})
    assert last.level == level
    assert what in last.what


@pytest.mark.parametrize(
    ("auth", "server", "level", "what"),
    [
        ({}, {}, "ok", "programs on this machine need no key; requests that came through a proxy"),
        ({"keys": KEYS}, {}, "ok", "every caller needs an API key (me)"),
        (
            {"keys": KEYS, "anonymous": "loopback"},
            {},
            "warning",
            "programs on this machine need no key although keys are configured",
        ),
        (
            {"anonymous": "always"},
            {"public_url": "https://192.0.2.1"},
            "warning",
            "whoever reaches https://192.0.2.1 may call without a key",
        ),
    ],
    ids=["no key", "key", "key and loopback", "always"],
)
async def test_what_is_open_to_whom(
    auth: dict[str, Any], server: dict[str, str], level: str, what: str, tmp_path: Path
) -> None:
    [finding] = await found(tmp_path, "auth", auth=auth, server={"port": free_port(), **server})
    assert finding.level == level
    assert what in finding.what
    assert bool(finding.remedy) == (level == "warning")


async def test_the_setting_for_development_is_warned_of(tmp_path: Path) -> None:
    assert await found(tmp_path, "network") == []
    [finding] = await found(tmp_path, "network", network={"allow_private_addresses": True})
    assert finding.level == "warning"
    assert "any private address" in finding.what
    assert "trusted_origins" in finding.remedy


async def test_a_store_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "x.db"
    [finding] = await found(tmp_path, "store", store={"path": str(file)})
    assert finding == Finding("ok", f"{file} will be created at the first start")
    assert os.listdir(tmp_path) == []


async def test_a_store_that_is_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    [used] = await found(tmp_path, "store")
    assert used.level == "ok"
    assert used.what.endswith(f"is in use by process {os.getpid()}, a running gateway")
    await store.close()
    assert await found(tmp_path, "store") == [Finding("ok", f"{tmp_path}/x.db can be used")]


async def test_an_older_database_is_not_migrated_by_looking(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    await store.close()
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("PRAGMA user_version = 1")
    database.close()
    [finding] = await found(tmp_path, "store")
    assert finding.what.endswith("x.db can be used; the next start migrates it")
    database = sqlite3.connect(tmp_path / "x.db")
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


async def test_a_store_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.write_bytes(b"no database at all, " * 100)
    [damaged] = await found(tmp_path, "store")
    assert damaged.level == "error"
    assert "is not a SQLite database" in damaged.what
    file.unlink()
    database = sqlite3.connect(file)
    database.execute("CREATE TABLE other (x)")
    database.close()
    [other] = await found(tmp_path, "store")
    assert other.level == "error"
    assert "of another program" in other.what


async def test_other_stores(tmp_path: Path) -> None:
    [memory] = await found(tmp_path, "store", store={"kind": "memory"})
    assert memory.level == "warning"
    folder = {"kind": "json-file", "path": str(tmp_path)}
    assert await found(tmp_path, "store", store=folder) == [
        Finding("ok", f"{tmp_path} can be used")
    ]


async def test_agents(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(
        "from trunkline import agent\n@agent(name='Good')\nasync def good(turn):\n    return ''\n"
    )
    (tmp_path / "bad.py").write_text("import nothing_that_is_there\n")
    agents = ECHO | {
        f"acme/{name}": {"backend": {"kind": "python", "target": f"{name}.py"}}
        for name in ("good", "bad")
    }
    assert await found(tmp_path, 'agents."acme/echo"', agents=agents) == [
        Finding("ok", "needs nothing else")
    ]
    [good] = await found(tmp_path, 'agents."acme/good"', agents=agents)
    assert good == Finding("ok", f"{tmp_path}/good.py has Good")
    [bad] = await found(tmp_path, 'agents."acme/bad"', agents=agents)
    assert bad.level == "error"
    assert "nothing_that_is_there" in bad.what


async def test_a_model_is_asked_for(tmp_path: Path) -> None:
    def agents(url: str) -> dict[str, Any]:
        backend = {"kind": "openai", "base_url": url, "model": "fake", "api_key": "a-key-of-mine"}
        return {"acme/model": {"name": "Model", "backend": backend}}

    part = 'agents."acme/model"'
    async with FakeModel(api_key="a-key-of-mine") as model:
        levels = [
            one.level for one in await found(tmp_path, part, agents=agents(f"{model.url}/v1"))
        ]
    assert levels[0] == "ok"
    assert "error" not in levels
    [gone] = await found(tmp_path, part, agents=agents(f"{model.url}/v1"))
    assert gone.level == "error"
    assert gone.remedy
    assert "a-key-of-mine" not in f"{gone}"


async def test_an_agent_behind_the_gateway_is_asked_for(tmp_path: Path) -> None:
    backend = {"kind": "a2a", "url": f"http://127.0.0.1:{free_port()}"}
    agents = {"acme/far": {"name": "Far", "backend": backend}}
    [gone] = await found(tmp_path, 'agents."acme/far"', agents=agents)
    assert gone.level == "error"
    assert "Start the agent" in gone.remedy


async def test_agents_are_asked_side_by_side_and_told_in_order(tmp_path: Path) -> None:
    count = 2 * AT_ONCE
    as_many_as_may, all_asked = asyncio.Event(), asyncio.Event()
    asked: list[int] = []
    peak = waiting = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal peak, waiting
        waiting += 1
        peak = max(peak, waiting)
        number = int((await reader.readuntil(b"\r\n\r\n")).split(b"/")[1])
        asked.append(number)
        if waiting >= AT_ONCE:
            as_many_as_may.set()
        if len(asked) == count:
            all_asked.set()
        # The first one is not answered before the last one is asked.
        await (all_asked if number == 0 else as_many_as_may).wait()
        waiting -= 1
        writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    agents = {
        f"acme/model-{number}": {
            "name": "Model",
            "backend": {
                "kind": "openai",
                "base_url": f"http://127.0.0.1:{port}/{number}/v1",
                "model": "fake",
            },
        }
        for number in range(count)
    }
    document = {"store": {"kind": "memory"}, "agents": agents}
    settings = from_document(document, folder=tmp_path)
    async with server:
        told = [one async for one in examine(settings) if one.part.startswith("agents")]
    assert [one.part for one in told] == [f'agents."{handle}"' for handle in agents]
    # None was kept waiting until it gave up.
    assert all("status 403" in one.finding.what for one in told), told
    assert sorted(asked) == list(range(count))
    assert peak == AT_ONCE
