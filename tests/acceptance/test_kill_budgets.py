"""`kill -9` while callers spend a budget: the count is still right, and is never exceeded."""

import asyncio
import random
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import gateway
from tests.acceptance.raw import envelope, message_params

from trunkline.hub.budgets import BUDGET
from trunkline.model.values import TaskState
from trunkline.ports.store import OperatorQuery, all_tasks
from trunkline.stores.sqlite import SqliteStore

KEY = "0123456789abcdef"
AT_MOST = 120
CODE = """
import asyncio
from pathlib import Path

from trunkline import agent

@agent
async def worker(turn):
    with Path("{log}").open("a") as log:
        log.write(f"{{turn.task_id}}\\n")
    await asyncio.sleep(0.01)
    return "done"
"""
CONFIG = """
[hub]
[auth.keys.alice]
key = "{key}"
[agents."test/worker"]
name = "Worker"
backend = {{ kind = "python", target = "{code}:worker" }}
busy = "queue"
[agents."test/worker".limits]
daily_budget_queries = {at_most}
concurrency_cap = 3
"""


class Caller:
    def __init__(self, url: str, http: httpx.AsyncClient, chance: random.Random) -> None:
        self._url, self._http, self._chance = url, http, chance

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = await self._http.post(self._url, json=envelope(method, params), headers=headers)
        return answer.json().get("result")

    async def work(self) -> None:
        """Send to few contexts, so that queues form, and cancel some of what waits."""
        with suppress(httpx.TransportError):
            while True:
                context = f"c{self._chance.randrange(6)}"
                params = message_params("hello", contextId=context)
                params["configuration"] = {"returnImmediately": True}
                sent = await self.call("SendMessage", params)
                if sent is None or sent["task"]["status"]["state"] == "TASK_STATE_REJECTED":
                    # Nothing is left now. Asking without a pause would only keep the machine busy.
                    await asyncio.sleep(0.02)
                elif self._chance.random() < 0.4:
                    await self.call("CancelTask", {"id": sent["task"]["id"]})


@pytest.mark.parametrize("kills", [4])
async def test_the_count_of_a_budget_survives_kills(tmp_path: Path, kills: int) -> None:
    chance, log = random.Random(7), tmp_path / "turns"
    code = tmp_path / "worker.py"
    code.write_text(CODE.format(log=log))
    with gateway(tmp_path, CONFIG.format(key=KEY, code=code, at_most=AT_MOST)) as running:
        for number in range(kills + 1):
            running.start()
            async with httpx.AsyncClient(timeout=30) as http:
                callers = [
                    Caller(
                        running.agent_url("test/worker"), http, random.Random(f"{number} {each}")
                    )
                    for each in range(8)
                ]
                works = asyncio.gather(*(caller.work() for caller in callers))
                if number < kills:
                    await asyncio.sleep(0.2 + chance.random() / 3)
                    running.kill()
                    await works
                else:
                    # Until nothing is left of the budget, and nothing waits.
                    # The callers keep every core busy, and so may other tests.
                    await eventually(lambda: is_over(tmp_path), within_s=90.0)
                    assert not works.done()
                    works.cancel()
                    with suppress(asyncio.CancelledError):
                        await works
        running.terminate()
        running.wait()
    await check(tmp_path, turns_of(log))


def database(folder: Path) -> Path:
    return folder / "data" / "trunkline.db"


async def is_over(folder: Path) -> bool:
    """Whether the budget is used up and nothing waits."""
    connection = sqlite3.connect(f"file:{database(folder)}?mode=ro", uri=True)
    try:
        ((count,),) = connection.execute(
            "SELECT max(count) FROM records WHERE kind = ?", (BUDGET,)
        ).fetchall()
        ((waits,),) = connection.execute(
            "SELECT count(*) FROM records WHERE kind = 'reservation.1'"
        ).fetchall()
    finally:
        connection.close()
    return bool(count == AT_MOST and not waits)


def turns_of(log: Path) -> list[str]:
    return log.read_text().split()


async def check(folder: Path, turns: list[str]) -> None:
    store = SqliteStore(database(folder))
    await store.open()
    try:
        begun: set[str] = set()
        refused = canceled = 0
        async for task in all_tasks(store, OperatorQuery(agent="test/worker", limit=100)):
            entries = await store.entries(task.task_id, after=0, limit=1000)
            states = {
                event.status.state
                for event in (entry.public for entry in entries)
                if hasattr(event, "status")
            }
            if TaskState.WORKING in states:
                begun.add(task.task_id)
            refused += task.state is TaskState.REJECTED
            canceled += task.state is TaskState.CANCELED and TaskState.WORKING not in states
        (record,) = [each for each in await store.records(BUDGET, limit=10)]
    finally:
        await store.close()
    # Every turn ran once and is one that the budget counts, and the budget counts nothing else.
    assert len(turns) == len(set(turns))
    assert set(turns) <= begun
    assert record.count == len(begun)
    assert record.count <= AT_MOST
    # The run was worth something.
    assert refused > 0
    assert canceled > 0
