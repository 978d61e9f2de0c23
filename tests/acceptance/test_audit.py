"""The audit on processes: killed gateways, and the commands beside a running one and alone."""

import asyncio
import csv
import hashlib
import io
import json
import sqlite3
from typing import Any

import httpx
from tests.acceptance.command import Shell
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import Gateway, http_client

KEY = "the-key-of-an-operator"
HUB = f"""
[hub]
[auth.keys.admin]
key = "{KEY}"
"""
ECHO = '[agents."acme/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'
CLIENTS = 8


def body(number: int) -> dict[str, Any]:
    message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


async def send(http: httpx.AsyncClient, gateway: Gateway, number: int, key: str = KEY) -> Any:
    answer = await http.post(
        gateway.agent_url("acme/echo"),
        json=body(number),
        headers={"Authorization": f"Bearer {key}"},
    )
    return answer.json()


async def load(gateway: Gateway, tasks: set[str]) -> None:
    """Send until the gateway is gone."""

    async def client() -> None:
        async with http_client() as http:
            number = 0
            while True:
                number += 1
                try:
                    answer = await send(http, gateway, number)
                except httpx.HTTPError:
                    return
                tasks.add(answer["result"]["task"]["id"])

    await asyncio.gather(*[client() for _ in range(CLIENTS)])


def audit(gateway: Gateway, *arguments: str) -> tuple[int, str]:
    done = Shell(gateway.folder).run("audit", *arguments, *gateway.arguments(()))
    return done.code, done.out


def rows(gateway: Gateway, *options: str) -> list[dict[str, Any]]:
    code, out = audit(gateway, "export", *options)
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


async def test_no_attempt_is_lost_or_doubled_when_the_gateway_is_killed(make: Make) -> None:
    gateway = make(HUB, agents=ECHO)
    tasks: set[str] = set()
    for pause_s in (0.6, 0.3, 1.0):
        gateway.start()
        sending = asyncio.create_task(load(gateway, tasks))
        await asyncio.sleep(pause_s)
        gateway.kill()
        await sending
    gateway.start()
    gateway.stop()
    found = [row["taskId"] for row in rows(gateway) if row["kind"] == "attempt"]
    assert len(found) == len(set(found))
    # Of some tasks the clients did not get the answer.
    assert tasks <= set(found)
    with sqlite3.connect(gateway.folder / "data" / "trunkline.db") as db:
        stored = {task_id for (task_id,) in db.execute("SELECT id FROM tasks")}
    assert set(found) == stored
    code, out = audit(gateway, "verify")
    assert (code, "4 chains: sound" in out) == (0, True), out


async def test_the_commands_say_the_same_beside_a_running_gateway_and_alone(make: Make) -> None:
    gateway = make(HUB, agents=ECHO).start()
    async with http_client() as http:
        for number in range(5):
            await send(http, gateway, number)
        await send(http, gateway, 6, key="wrong")
        found = await http.get(f"{gateway.url}/api/v1/agents", params={"q": "echo"})
        url = f"{gateway.url}/api/v1/agents/{found.json()['items'][0]['id']}/inbound"
        assert (await http.get(url)).status_code == 401
        await asyncio.sleep(0.6)
        code, running = audit(gateway, "verify")
        assert (code, "12 rows in 1 chain: sound" in running) == (0, True), running
        exported = rows(gateway)
        assert [row["kind"] for row in exported].count("attempt") == 5
        refusals = [row for row in exported if row["kind"] == "refusal"]
        assert {(row["reason"], row["source"]) for row in refusals} == {
            ("unauthenticated", "127.0.0.1")
        }
        operations = [row.get("operation", "").partition("/agt_")[0] for row in refusals]
        assert operations == ["", "GET /api/v1/agents"]
        _, tail = audit(gateway, "tail", "-n", "2")
        assert len(tail.splitlines()) == 2
        # The report of the same attempts over HTTP.
        report = await http.get(url, headers={"Authorization": f"Bearer {KEY}"})
        assert report.json()["summary"]["ok"] == 5
    gateway.stop()
    code, alone = audit(gateway, "verify")
    assert (code, alone.split(" last hash")[0]) == (0, running.split(" last hash")[0])
    assert rows(gateway) == exported
    assert rows(gateway, "--since", "1h") == exported
    assert rows(gateway, "--since", "2999-01-01") == []
    _, table = audit(gateway, "export", "--format", "csv")
    kinds = [row["kind"] for row in csv.DictReader(io.StringIO(table))]
    assert kinds == [row["kind"] for row in exported]
    assert audit(gateway, "tail", "--follow")[0] == 15


async def test_an_export_can_be_checked_without_the_program(make: Make) -> None:
    gateway = make(HUB, agents=ECHO).start()
    async with http_client() as http:
        for number in range(3):
            await send(http, gateway, number)
    gateway.stop()
    _, out = audit(gateway, "export")
    before = ""
    for line in out.splitlines():
        content, _, rest = line.rpartition(',"hash":"')
        if before:
            assert hashlib.sha256((before + content).encode()).hexdigest() == rest[:-2]
        before = rest[:-2]


async def test_a_row_that_was_changed_in_the_database_is_found(make: Make) -> None:
    gateway = make(HUB, agents=ECHO).start()
    async with http_client() as http:
        for number in range(3):
            await send(http, gateway, number)
    gateway.stop()
    with sqlite3.connect(gateway.folder / "data" / "trunkline.db") as db:
        (data,) = db.execute("SELECT body FROM records WHERE kind = 'audit.1'").fetchone()
        changed = data.replace(b"admin", b"other", 1)
        db.execute("UPDATE records SET body = ? WHERE kind = 'audit.1'", (changed,))
    code, out = audit(gateway, "verify")
    assert code == 1
    assert "row 1: the hash does not fit" in out
