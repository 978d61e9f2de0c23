"""Commands on tenants at one node of a relay count at the other one, within a second."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.command import Shell
from tests.acceptance.gateway import DEADLINE_S
from tests.acceptance.relay_hosts import AttachedHost, Echo, hosts, until
from tests.acceptance.relay_nodes import relay_nodes
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer

SOON_S = 1.0


@pytest.mark.full
async def test_tenants_are_managed_at_any_node(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    url = await asyncio.to_thread(own_postgres.create_database, fill_template)
    async with relay_nodes(tmp_path, url) as (here, there), hosts() as made:
        shell = Shell(tmp_path)
        shell.environment["XDG_DATA_HOME"] = str(here.folder)

        async def command(*words: str) -> Any:
            flags = ("--config", str(here.folder / "trunkline.toml"), "-o", "json")
            done = await asyncio.to_thread(shell.run, "relay", *words, *flags)
            assert done.code == 0, done.err
            return json.loads(done.out)

        async def status(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            target = f"http://127.0.0.1:{there.port}/t/acme/a2a/helper"
            async with httpx.AsyncClient(timeout=DEADLINE_S, verify=False) as http:
                return (await http.post(target, headers=headers, content=b"x")).status_code

        await command("tenant", "add", "acme")
        client = (await command("token", "--tenant", "acme", "--client", "me"))["token"]
        host = (await command("token", "--tenant", "acme", "--agent", "helper"))["token"]
        made.append(await AttachedHost(there.port, Echo(), token=host).attached())
        assert await status(client) == 200
        [agent] = (await command("agents"))["items"]
        assert (agent["agent"], agent["state"]) == ("acme/helper", "at another node")

        await command("deny", "--subject", "me", "--tenant", "acme")
        assert await status(client) == 401
        await command("allow", "--subject", "me", "--tenant", "acme")
        await until(lambda: not made[-1].is_refused)

        await command("tenant", "disable", "acme")
        # The other node has followed it when the command ends.
        ended = time.monotonic()
        await until(lambda: made[-1].is_refused)
        took_s = time.monotonic() - ended
        print(f"a session at the other node ended {took_s:.3f} s after the command")
        assert took_s < SOON_S
        assert await status(client) == 401

        await command("tenant", "enable", "acme")
        made.append(await AttachedHost(there.port, Echo(), token=host).attached())
        assert await status(client) == 200
        await command("tenant", "rotate", "acme", "--grace", "0")
        assert await status(client) == 401
        await until(lambda: made[-1].is_refused)
