"""`kill -9` while agents ask each other: each call has one outcome, which its caller gets once."""

import asyncio
import random
import sqlite3
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import Gateway, gateway
from tests.acceptance.raw import envelope, message_params

from trunkline.ports.caller_records import ENTRY
from trunkline.ports.store import OperatorQuery, all_entries, all_tasks
from trunkline.routing.call_records import CALL, PENDING_TAG, decode_record
from trunkline.stores.sqlite import SqliteStore

CODE = """
import asyncio
from pathlib import Path

from trunkline import agent

LOG = Path("{log}")


def note(line):
    with LOG.open("a") as log:
        log.write(line + "\\n")


@agent
async def caller(turn):
    if '"correlationId"' in turn.text:
        note(f"answered {{turn.message.metadata['provenance']['correlationId']}}")
        return "thanks"
    for name in ("main", "files"):
        for text in ("quick", "slow"):
            made = await turn.call(f"test/{{name}}", text, wait=False, timeout_s=1)
            if made["status"] == "pending":
                note(f"made {{made['correlationId']}}")
    return "asked"


@agent
async def helper(turn):
    await asyncio.sleep(0.02 if turn.text == "quick" else 3)
    return f"about {{turn.text}}"
"""
CONFIG = """
[routing]
grace_s = 3600
[agents."test/caller"]
name = "Caller"
backend = {{ kind = "python", target = "{code}:caller" }}
response_starts_turn = true
[agents."test/main"]
name = "Helper"
backend = {{ kind = "python", target = "{code}:helper" }}
[agents."test/files"]
name = "Helper with its own store"
backend = {{ kind = "python", target = "{code}:helper" }}
[agents."test/files".store]
kind = "json-file"
path = "{files}"
"""


async def work(gateway: Gateway, http: httpx.AsyncClient, chance: random.Random) -> None:
    """Have the caller ask, in a few conversations, until the gateway is gone."""
    with suppress(httpx.TransportError):
        while True:
            params = message_params("go", contextId=f"c{chance.randrange(4)}")
            request = envelope("SendMessage", params)
            await http.post(gateway.agent_url("test/caller"), json=request)
            await asyncio.sleep(chance.random() / 10)


async def run(folder: Path, *, kills: int) -> None:
    log, code = folder / "calls", folder / "agents.py"
    code.write_text(CODE.format(log=log))
    with gateway(folder, CONFIG.format(code=code, files=folder / "files")) as made:
        await kill_under_load(made, kills)
        made.start()
        await eventually(lambda: is_over(folder))
        made.stop()
    await check(folder, [line.split() for line in log.read_text().splitlines()])


async def kill_under_load(gateway: Gateway, kills: int) -> None:
    chance = random.Random(11)
    for number in range(kills):
        gateway.start()
        async with httpx.AsyncClient(timeout=30) as http:
            works = asyncio.gather(
                *(work(gateway, http, random.Random(f"{number} {each}")) for each in range(4))
            )
            # Some answers, some timeouts, and some calls that are under way.
            await asyncio.sleep(0.4 + chance.random() * 1.5)
            gateway.kill()
            await works


@pytest.mark.parametrize("kills", [2])
async def test_kills_lose_no_outcome_of_a_call_and_double_none(tmp_path: Path, kills: int) -> None:
    await run(tmp_path, kills=kills)


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_many_kills_lose_no_outcome_of_a_call_and_double_none(tmp_path: Path) -> None:
    await run(tmp_path, kills=60)


def database(folder: Path) -> Path:
    return folder / "data" / "trunkline.db"


async def is_over(folder: Path) -> bool:
    """Whether every call has ended, and what follows its end is done."""
    database_url = f"file:{database(folder)}?mode=ro"
    connection = sqlite3.connect(database_url, uri=True)
    try:
        ((left,),) = connection.execute(
            "SELECT (SELECT count(*) FROM record_tags WHERE tag = ?) + (SELECT count(*) FROM "
            "records WHERE kind IN ('call-end.1', 'session-turn.1'))",
            (PENDING_TAG,),
        ).fetchall()
    finally:
        connection.close()
    return bool(left == 0)


async def check(folder: Path, lines: list[list[str]]) -> None:
    made = {id for what, id in lines if what == "made"}
    answered = Counter(id for what, id in lines if what == "answered")
    store = SqliteStore(database(folder))
    await store.open()
    try:
        records = await store.records(CALL, limit=100_000)
        entries = await store.records(ENTRY, limit=100_000)
        told = await messages(store)
    finally:
        await store.close()
    calls = {each.call.id: each for each in (decode_record(record.body) for record in records)}
    assert made <= calls.keys()
    came = Counter(record.key.id.partition("resp-")[2] for record in entries)
    assert came == Counter(calls.keys())
    assert Counter({id: told[f"resp-{id}"] for id in calls}) == came
    assert answered.keys() <= calls.keys()
    assert set(answered.values()) == {1}
    # The run was worth something.
    states = Counter(each.state for each in calls.values())
    assert states.keys() == {"completed", "timeout", "error"}


async def messages(store: SqliteStore) -> Counter[str]:
    """How often each answer came to a task of the caller."""
    found: Counter[str] = Counter()
    async for task in all_tasks(store, OperatorQuery(agent="test/caller", limit=100)):
        for entry in await all_entries(store, task.task_id):
            event: Any = entry.event
            history = getattr(getattr(event, "task", event), "history", ())
            found.update([message.message_id for message in history])
    return found
