"""Programs of agents that ask other agents with the token of their turn, over HTTP and MCP."""

import json
import logging
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import msgspec
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import http_client
from tests.acceptance.raw import send
from tests.programs.backends import FOLDER
from tests.sockets.peer import serving
from typer.testing import CliRunner

from trunkline.app.gateway import Gateway, build
from trunkline.cli.commands import app as cli
from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Message, Part, Role, Task, TaskState, text_of
from trunkline.routing.tool_tokens import ToolAddress
from trunkline.routing.tools import TOOLS
from trunkline.settings import from_document
from trunkline.testing import FakeClock

CODE = """\
from trunkline import agent


@agent
async def researcher(turn):
    return {"output": "found: " + turn.text, "confidence": 0.9}
"""
ROOT = Path(__file__).parents[2]
ASK = {"agent": "acme/researcher", "input": "the moon", "wait": True}
ALICE = Principal(id="alice", grants=EVERYTHING)
_decode = msgspec.json.Decoder(Task).decode


def program(*arguments: str, **keys: Any) -> dict[str, Any]:
    command = [sys.executable, str(FOLDER / "uses_tools.py"), *arguments]
    tools = {"tools": [*TOOLS]}
    return {"kind": "command", "command": command, "inherit_env": ["PATH"], **tools, **keys}


class World:
    """A gateway in this process, on the fake clock, behind a real socket."""

    def __init__(self, gateway: Gateway, clock: FakeClock, url: str) -> None:
        self.gateway = gateway
        self.clock = clock
        self.url = url
        self._count = 0

    async def ask(self, message: dict[str, Any], *, context: str = "c1") -> Task:
        self._count += 1
        found = self.gateway.directory.callee("acme/editor")
        assert found is not None
        request = SendMessageRequest(
            message=Message(
                message_id=f"m-{self._count}",
                context_id=context,
                role=Role.USER,
                parts=(Part(text=json.dumps(message)),),
            )
        )
        answer = await found.service.send(found.agent, Caller(principal=ALICE), request)
        return _decode(answer.task)  # type: ignore[union-attr]

    async def told(self, message: dict[str, Any], *, context: str = "c1") -> Any:
        """The JSON that the program printed."""
        task = await self.ask(message, context=context)
        assert task.status.state is TaskState.COMPLETED, task.status
        return json.loads(text_of(task.artifacts[0].parts))

    async def use(self, token: str, **more: Any) -> httpx.Response:
        """Use the token as its thief does."""
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(headers=headers) as client:
            return await client.post(f"{self.url}/agent_call", json=ASK | more)


@asynccontextmanager
async def running(folder: Path, backend: dict[str, Any]) -> AsyncIterator[World]:
    target = folder / "team.py"
    target.write_text(CODE)
    agents = {
        "acme/editor": {"name": "Editor", "backend": backend},
        "acme/researcher": {"backend": {"kind": "python", "target": f"{target}:researcher"}},
    }
    document = {"store": {"kind": "memory"}, "agents": agents}
    clock = FakeClock()
    gateway = build(from_document(document, environment={}), base_url="", clock=clock)
    await gateway.open()
    try:
        async with serving(gateway.application.serve) as server:
            url = f"http://127.0.0.1:{server.port}/api/v1/tools"
            address = ToolAddress(url=url, mcp_url=f"{url}/mcp")
            gateway.routing.routing.tool_tokens.address = address
            yield World(gateway, clock, url)
    finally:
        await gateway.close()


async def test_a_program_asks_another_agent_over_http(tmp_path: Path) -> None:
    async with running(tmp_path, program()) as world:
        told = await world.told({"way": "http", "call": ASK})
        assert (told["status"], told["output"]) == ("completed", "found: the moon")


async def test_a_program_asks_another_agent_over_mcp(tmp_path: Path) -> None:
    async with running(tmp_path, program()) as world:
        told = await world.told({"way": "mcp", "call": ASK})
        assert told["tools"] == [*TOOLS]
        assert (told["isError"], told["output"]) == (False, "found: the moon")
        refused = await world.told({"way": "mcp", "call": ASK | {"agent": "acme/editor"}})
        assert (refused["isError"], refused["error"]["code"]) == (True, "self_call_blocked")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_hosts_of_both_generations_of_mcp_use_the_tools(tmp_path: Path, mode: Any) -> None:
    file = tmp_path / "kept"
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with running(tmp_path, program()) as world:
        await world.ask({"keep": str(file)})
        _, token = file.read_text().split()
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{world.url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                listed = (await client.list_tools()).tools
                result = await client.call_tool("agent_call", ASK)
                calls = {"calls": [{"agent": "acme/researcher", "input": "mars"}], "wait": True}
                batch = await client.call_tool(
                    "agent_call_batch", calls, progress_callback=on_progress
                )
        definitions = [each.definition for each in TOOLS.values()]
        assert [each.input_schema for each in listed] == [each.input_schema for each in definitions]
        assert result.structured_content is not None
        assert result.structured_content["output"] == "found: the moon"
        assert batch.structured_content is not None
        assert batch.structured_content["completedCount"] == 1
        assert told == ["steps that have ended: 1"]


async def test_what_is_wrong_over_mcp_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    async with running(tmp_path, program()) as world:
        await world.ask({"keep": str(file)})
        _, token = file.read_text().split()
        async with httpx.AsyncClient(base_url=world.url) as client:
            client.headers["Authorization"] = f"Bearer {token}"
            stream = await client.get("/mcp", headers={"Accept": "text/event-stream"})
            assert (stream.status_code, stream.headers["allow"]) == (405, "POST")
            assert (await client.delete("/mcp")).status_code == 405
            page = await client.post("/mcp", headers={"Origin": "https://evil.example"})
            assert page.status_code == 403
            assert (await client.post("/mcp", content=b"x" * 2_000_000)).status_code == 413
            assert (await client.post("/mcp", content=b"[" * 1_000)).status_code == 400
            client.headers["Authorization"] = f"Bearer {token[:-1]}"
            assert (await client.post("/mcp", content=b"x" * 2_000_000)).status_code == 401


async def test_the_token_is_refused_after_the_turn_and_for_another_session(
    tmp_path: Path,
) -> None:
    file = tmp_path / "stolen"
    async with running(tmp_path, program()) as world:
        await world.ask({"keep": str(file)})
        url, token = file.read_text().split()
        assert url == world.url
        assert (await world.use(token)).status_code == 200
        other = await world.use(token, returnTo="agent:editor:a2a:c2")
        assert (other.status_code, "return_to_refused" in other.text) == (403, True)
        await world.clock.advance(61)
        late = await world.use(token)
        assert late.status_code == 401
        assert token not in late.text


async def test_a_kept_process_has_one_token_which_counts_during_its_turns(tmp_path: Path) -> None:
    backend = program("--end", ".", end_line=".", session="session")
    first, second = tmp_path / "first", tmp_path / "second"
    async with running(tmp_path, backend) as world:
        assert (await world.told({"way": "http", "call": ASK}))["status"] == "completed"
        await world.ask({"keep": str(first)})
        _, token = first.read_text().split()
        await world.clock.advance(61)
        assert (await world.use(token)).status_code == 401
        assert (await world.told({"way": "http", "call": ASK}))["status"] == "completed"
        assert (await world.use(token)).status_code == 200
        await world.ask({"keep": str(second)}, context="c2")
        assert second.read_text() != first.read_text()


async def test_a_token_that_the_program_says_is_masked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "stolen"
    async with running(tmp_path, program()) as world:
        task = await world.ask({"keep": str(file), "print": 3})
        _, token = file.read_text().split()
    assert task.status.state is TaskState.FAILED
    said = msgspec.json.encode(task).decode()
    assert "the token is ***." in said
    (record,) = [each for each in caplog.records if each.name == "trunkline.command"]
    assert record.__dict__["stderr"] == "it is ***"
    assert token not in said + caplog.text + str([each.__dict__ for each in caplog.records])


async def test_an_agent_without_tools_has_no_token(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    async with running(tmp_path, program(tools=[])) as world:
        await world.ask({"keep": str(file)})
        assert file.read_text() == " "


async def test_a_gateway_gives_its_programs_the_tools(make: Make) -> None:
    """The whole of it: a process with a port of its own, programs and commands of operators."""
    command = json.dumps(program()["command"])
    shell = json.dumps([sys.executable, "-m", "trunkline", "tool", "agent_call"])
    gateway = make(
        f"""
        [agents."acme/editor"]
        name = "Editor"
        [agents."acme/editor".backend]
        kind = "command"
        command = {command}
        tools = ["agent_call"]

        [agents."acme/shell"]
        name = "Shell"
        [agents."acme/shell".backend]
        kind = "command"
        command = {shell}
        tools = ["agent_call"]
        inherit_env = ["PATH", "PYTHONPATH", "HOME"]

        [agents."acme/researcher"]
        backend = {{ kind = "python", target = "team.py:researcher" }}
        """,
        agents="",
    )
    (gateway.folder / "team.py").write_text(CODE)
    gateway.start()
    stolen = gateway.folder / "stolen"

    async def told(message: dict[str, Any], *, agent: str = "acme/editor") -> str:
        task = await send(gateway, json.dumps(message), agent=agent)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
        return str(task["artifacts"][0]["parts"][0]["text"])

    def operator(*words: str) -> Any:
        data = str(gateway.folder / "data")
        done = CliRunner().invoke(cli, [*words, "--data", data])
        assert done.exit_code == 0, done.stderr
        return (
            done.stdout if words[0] == "session" and words[1] == "rm" else json.loads(done.stdout)
        )

    asked = json.loads(await told({"way": "mcp", "call": ASK}))
    assert (asked["tools"], asked["output"]) == (["agent_call"], "found: the moon")
    assert json.loads(await told(ASK, agent="acme/shell"))["output"] == "found: the moon"
    await told({"keep": str(stolen)})
    url, token = stolen.read_text().split()
    assert url == f"{gateway.url}/api/v1/tools"
    async with http_client(headers={"Authorization": f"Bearer {token}"}) as http:
        assert (await http.post(f"{url}/agent_call", json=ASK)).status_code == 200
        assert (await http.post(f"{url}/agent_poll", json={"taskId": "t"})).status_code == 403
        last, *_ = operator("session", "ls", "--agent", "acme/editor", "-o", "json")["items"]
        key = last["key"]
        used = operator("tool", "agent_call", json.dumps(ASK), "--session", key)
        assert used["output"] == "found: the moon"
        calls = operator("calls", "ls", "-o", "json")["items"]
        assert {each["agent"] for each in calls} == {"acme/editor", "acme/shell"}
        # The session ends, and its token with it.
        assert operator("session", "rm", key) == f"{key}: ended\n"
        assert (await http.post(f"{url}/agent_call", json=ASK)).status_code == 401
    gateway.stop()
    assert token not in gateway.stderr + gateway.stdout
    data = b"".join(each.read_bytes() for each in gateway.folder.rglob("*.db*"))
    assert data
    assert token.removeprefix("tl_tool_").encode() not in data


async def test_the_example_asks_the_counter(make: Make) -> None:
    page = (ROOT / "docs" / "guides" / "backends" / "command.md").read_text("utf-8")
    _, _, shown = page.partition('demo/asker "one two three"\n')
    example = ROOT / "examples" / "command"
    gateway = make(agents=(example / "trunkline.toml").read_text("utf-8"))
    for name in ("ask.py", "count.py", "notes.py"):
        shutil.copy(example / name, gateway.folder)
    gateway.start()
    task = await send(gateway, "one two three", agent="demo/asker")
    text = task["artifacts"][0]["parts"][0]["text"]
    assert text.rstrip() == shown.partition("\n```")[0]
