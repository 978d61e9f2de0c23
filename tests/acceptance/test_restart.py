"""A real process, killed with much to do: what waited goes on in order, what ran ends as the
policy of its agent says, and an operator settles what is left."""

import asyncio
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.conftest import Make, eventually
from tests.acceptance.gateway import SOURCE, Gateway, http_client
from tests.acceptance.raw import envelope, message_params

from trunkline.engine.recovery import restart_reason
from trunkline.model.values import TaskState

CODE = """
import asyncio
from pathlib import Path

from trunkline import agent

@agent
async def worker(turn):
    with Path("{log}").open("a") as log:
        log.write(f"{{turn.context_id}} {{turn.task_id}}\\n")
    while not Path(turn.text).exists():
        await asyncio.sleep(0.02)
    return "done"
"""
# Agent → its policy for what ran, and in how many contexts it is at work.
AGENTS = {"fail": ("fail_running", 7), "retry": ("retry_running", 7), "left": ("leave_orphaned", 6)}
QUEUED = 25


class Work:
    """The tasks of one context: the first ran, the others waited."""

    def __init__(self, agent: str, context: str) -> None:
        self.agent = agent
        self.context = context
        self.ids: list[str] = []


class Client:
    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self._gateway = gateway
        self._http = http

    async def call(self, agent: str, method: str, params: dict[str, Any]) -> Any:
        url = self._gateway.agent_url(f"test/{agent}")
        response = await self._http.post(url, json=envelope(method, params))
        return response.json()["result"]

    async def submit(self, work: Work, text: str) -> None:
        params = message_params(text, contextId=work.context)
        params["configuration"] = {"returnImmediately": True}
        answer = await self.call(work.agent, "SendMessage", params)
        work.ids.append(answer["task"]["id"])

    async def status(self, work: Work, task_id: str) -> tuple[str, str]:
        """State and text of the status."""
        status = (await self.call(work.agent, "GetTask", {"id": task_id}))["status"]
        parts = status.get("message", {"parts": [{"text": ""}]})["parts"]
        return status["state"].removeprefix("TASK_STATE_"), parts[0]["text"]


def db(gateway: Gateway, *words: str) -> str:
    command = [sys.executable, "-m", "trunkline", "db", *words]
    where = ["--config", str(gateway.folder / "trunkline.toml"), "--data", "data"]
    done = subprocess.run(
        [*command, *where],
        cwd=gateway.folder,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


# The store, and how a second process is refused.
@pytest.mark.parametrize(
    ("store", "in_use"),
    [("sqlite", "is in use by process"), ("json-file", "Task store writer lock timed out")],
)
async def test_x11_a_kill_with_500_queued_in_20_contexts_and_20_running(
    make: Make, tmp_path: Path, store: str, in_use: str
) -> None:
    folder, log, go, there = (tmp_path / name for name in ("gateway", "log", "go", "there"))
    folder.mkdir()
    there.touch()
    (folder / "worker.py").write_text(CODE.format(log=log))
    agents = "".join(
        f'[agents."test/{name}"]\nbackend = {{ kind = "python", target = "worker.py:worker" }}\n'
        f'store = {{ kind = "{store}", path = "{tmp_path / name}" }}\n'
        f'on_restart = ["resume_queued", "{policy}"]\n'
        for name, (policy, _) in AGENTS.items()
    )
    gateway = make(agents=agents, folder=folder).start()
    todo = [Work(name, f"{name}-{n}") for name, (_, count) in AGENTS.items() for n in range(count)]
    async with http_client(headers={"A2A-Version": "1.0"}) as http:
        client = Client(gateway, http)
        await asyncio.gather(*(client.submit(work, str(go)) for work in todo))
        await eventually(partial(_has_lines, log, len(todo)))
        for _ in range(QUEUED):
            await asyncio.gather(*(client.submit(work, str(there)) for work in todo))
    gateway.kill()
    log.unlink()

    gateway.start()
    go.touch()
    async with http_client(headers={"A2A-Version": "1.0"}) as http:
        client = Client(gateway, http)
        for work in todo:
            for task_id in work.ids[1:]:
                await eventually(partial(_completed, client, work, task_id))
        ran = {
            "fail": ("FAILED", restart_reason(TaskState.WORKING)),
            "retry": ("COMPLETED", "done"),
            "left": ("WORKING", ""),
        }
        for work in todo:
            assert await client.status(work, work.ids[0]) == ran[work.agent]
        for name, (_, count) in AGENTS.items():
            page = await client.call(name, "ListTasks", {"pageSize": 1})
            assert page["totalSize"] == count * (QUEUED + 1)
    began: dict[str, list[str]] = {}
    for line in lines(log):
        context, task_id = line.split()
        began.setdefault(context, []).append(task_id)
    for work in todo:
        assert began[work.context] == (work.ids if work.agent == "retry" else work.ids[1:])

    assert in_use in db(gateway, "settle")
    gateway.stop()
    assert db(gateway, "settle").splitlines()[-1] == "failed 6 orphaned tasks"
    assert db(gateway, "prune", "--keep", "0", "--agent", "test/left") == (
        f"test/left: deleted {6 * (QUEUED + 1)} ended tasks, 0 left\n"
    )


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def _has_lines(log: Path, count: int) -> bool:
    return len(lines(log)) == count


async def _completed(client: Client, work: Work, task_id: str) -> bool:
    return (await client.status(work, task_id))[0] == "COMPLETED"
