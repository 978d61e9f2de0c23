"""`trunkline agent` on a database that gateways elsewhere use, from a machine where none runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.hub.registry_world import HubWorld, made
from typer.testing import CliRunner

from trunkline.cli.commands import app
from trunkline.clock import SystemClock
from trunkline.stores.postgres.store import PostgresStore
from trunkline.testing import FakeClock

pytestmark = pytest.mark.full


async def test_a_command_reaches_gateways_on_other_machines_by_the_store(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = PostgresStore.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "allow_unsafe", True)

    def agent(*words: str) -> Any:
        where = ("--db", postgres_url, "--data", str(tmp_path / "here"))
        done = CliRunner().invoke(app, ["agent", *words, *where, "-o", "json"])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    store = {"kind": "postgres", "url": postgres_url, "path": str(tmp_path / "there")}
    gateway = made(SystemClock(), store=store)
    await gateway.open()
    try:
        world = HubWorld(gateway, FakeClock())
        command = asyncio.to_thread(agent, "add", "acme/echo", "--backend", "echo", "--publish")
        assert (await command)["status"] == "published"
        async with asyncio.timeout(20):
            while (await world.card("acme/echo")).status != 200:
                await SystemClock().sleep(0.05)
        assert (await world.send("acme/echo")).status == 200
        assert (await asyncio.to_thread(agent, "unpublish", "acme/echo"))["status"] == "draft"
        # The command returns when no gateway trusts an older memory.
        assert (await world.card("acme/echo")).status == 404
        assert (await world.send("acme/echo")).status == 404
    finally:
        await gateway.close()
