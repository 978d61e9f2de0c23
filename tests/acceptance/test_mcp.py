"""The tools over MCP, driven by the official client: on stdio, and as HTTP under the gateway."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from tests.acceptance.conftest import ALICE_KEY, BOB_KEY, KEYS, Make, eventually
from tests.acceptance.gateway import DEADLINE_S, SOURCE, Gateway, http_client
from tests.acceptance.tool_command import ToolCommand, says

from trunkline.app.tools import definitions
from trunkline.model.calls import ListTasksRequest
from trunkline.model.values import TaskState
from trunkline.remote import connect as remote
from trunkline.settings import load

Connect = Callable[[], Any]
# Hosts of today say hello first; those of tomorrow do not.
WAYS = [("stdio", "legacy"), ("http", "legacy"), ("stdio", "auto"), ("http", "auto")]


@pytest.fixture(scope="module")
def tools(gateways: Make, shared: Gateway) -> Gateway:
    """A gateway without agents that serves the tools to those who have a key."""
    served = gateways(
        f'[auth]\nanonymous = "never"\n{KEYS}\n'
        f'[targets.peer]\nbase_url = "{shared.url}"\ndefault = true\n[remote]\nmcp = true\n',
        agents="",
    )
    return served.start()


def stdio(command: ToolCommand) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "trunkline", "mcp", "--config", str(command.config)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


@asynccontextmanager
async def over_http(gateway: Gateway, mode: Any, key: str = ALICE_KEY) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S) as http:
        transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.fixture(params=WAYS, ids="-".join)
async def connect(
    request: pytest.FixtureRequest, shared: Gateway, tools: Gateway, tmp_path: Path
) -> Connect:
    way, mode = request.param
    if way == "http":
        return lambda: over_http(tools, mode)
    command = ToolCommand(tmp_path, shared.url)
    return lambda: Client(stdio(command), mode=mode)


def envelope_of(result: CallToolResult) -> dict[str, Any]:
    """Said twice, and the same both times."""
    [content] = result.content
    assert content.type == "text"
    envelope: dict[str, Any] = json.loads(content.text)
    assert result.structured_content == envelope
    assert result.is_error is not envelope["ok"]
    return envelope


async def test_the_tools_are_listed_with_their_schemas(connect: Connect, tmp_path: Path) -> None:
    async with connect() as client:
        tools = (await client.list_tools()).tools
    settings = load(ToolCommand(tmp_path, "http://127.0.0.1:9").config)
    assert [tool.name for tool in tools] == ["remote_agent", "a2a_send"]
    for tool, definition in zip(tools, definitions(settings), strict=True):
        assert (tool.name, tool.description) == (definition.name, definition.description)
        assert tool.input_schema == definition.input_schema


async def test_the_small_tool_sends_and_gives_the_answer(connect: Connect) -> None:
    async with connect() as client:
        told = envelope_of(await client.call_tool("a2a_send", {"message": "say hi"}))
    assert (told["operation"], told["summary"]["message_text"]) == ("a2a_send", "hi")


async def test_a_call_gives_the_envelope_and_its_updates(connect: Connect) -> None:
    told: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        told.append((progress, message))

    async with connect() as client:
        request = says("stream 3", follow_updates=True)
        result = await client.call_tool("remote_agent", request, progress_callback=on_progress)
        silent = await client.call_tool("remote_agent", says("say hi"))
    envelope = envelope_of(result)
    assert envelope["summary"]["message_text"] == "1 2 3 "
    assert told == [
        (1, "peer: submitted"),
        (2, "peer: working"),
        (3, "peer: working: 1"),
        (4, "peer: working: 1 2"),
        (5, "peer: working: 1 2 3"),
        (6, "peer: completed: 1 2 3"),
    ]
    assert envelope_of(silent)["summary"]["message_text"] == "hi"


async def test_work_is_picked_up_in_a_later_session(connect: Connect) -> None:
    async with connect() as client:
        asked = envelope_of(await client.call_tool("remote_agent", says("ask Which colour?")))
    saved = asked["summary"]["continuation"]
    assert saved["task"]["status"] == "input-required"
    async with connect() as client:
        request = says("say blue", continuation=saved)
        done = envelope_of(await client.call_tool("remote_agent", request))
    assert done["summary"]["continuation"]["task"]["status"] == "completed"


async def test_bad_input_is_a_result_that_says_what_is_wrong(connect: Connect) -> None:
    async with connect() as client:
        wrong = await client.call_tool("remote_agent", {"action": "send", "parts": [], "x": 1})
        error = envelope_of(wrong)["error"]
        assert error["code"] == "VALIDATION_ERROR"
        assert {one["keyword"] for one in error["details"]["errors"]} == {
            "minItems",
            "additionalProperties",
        }
        nothing = envelope_of(await client.call_tool("remote_agent"))
        assert nothing["error"]["code"] == "VALIDATION_ERROR"
        with pytest.raises(MCPError, match='there is no tool "remote_agnt"'):
            await client.call_tool("remote_agnt", {})
        assert envelope_of(await client.call_tool("remote_agent", says("say hi")))["ok"]


@pytest.mark.parametrize("cancels", [True, False])
async def test_a_cancel_ends_the_wait_and_on_request_the_remote_task(
    connect: Connect, shared: Gateway, cancels: bool
) -> None:
    seen = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if message == "peer: working":
            seen.set()

    context = f"cancel-{os.urandom(8).hex()}"
    request = says("hang", follow_updates=True, cancel_on_abort=cancels, context_id=context)
    async with connect() as client, remote(shared.url) as peer:
        call = asyncio.create_task(
            client.call_tool("remote_agent", request, progress_callback=on_progress)
        )
        await asyncio.wait_for(seen.wait(), DEADLINE_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        # The session goes on.
        assert envelope_of(await client.call_tool("remote_agent", says("say hi")))["ok"]

        async def state() -> TaskState:
            [task] = (await peer.list(ListTasksRequest(context_id=context))).tasks
            return task.status.state

        async def is_canceled() -> bool:
            return await state() is TaskState.CANCELED

        if cancels:
            await eventually(is_canceled)
        else:
            assert await state() is TaskState.WORKING


async def test_an_end_of_stdin_calls_off_what_runs(shared: Gateway, tmp_path: Path) -> None:
    seen = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if message == "peer: working":
            seen.set()

    context = f"eof-{os.urandom(8).hex()}"
    request = says("hang", follow_updates=True, cancel_on_abort=True, context_id=context)
    async with remote(shared.url) as peer:
        async with Client(stdio(ToolCommand(tmp_path, shared.url)), mode="legacy") as client:
            call = asyncio.create_task(
                client.call_tool("remote_agent", request, progress_callback=on_progress)
            )
            await asyncio.wait_for(seen.wait(), DEADLINE_S)
        with pytest.raises(MCPError):
            await call

        async def is_canceled() -> bool:
            [task] = (await peer.list(ListTasksRequest(context_id=context))).tasks
            return task.status.state is TaskState.CANCELED

        await eventually(is_canceled)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_although_stdin_is_open(
    shared: Gateway, tmp_path: Path, sent: signal.Signals
) -> None:
    command = stdio(ToolCommand(tmp_path, shared.url))
    with subprocess.Popen(
        [command.command, *command.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=command.env,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "trunkline"
        process.send_signal(sent)
        assert process.wait(DEADLINE_S) == 130
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def initialize(gateway: Gateway, **headers: str) -> httpx.Response:
    accept = {"Accept": "application/json, text/event-stream"}
    async with http_client(headers=accept | headers) as http:
        return await http.post(f"{gateway.url}/mcp", json=INITIALIZE)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "This gateway needs an API key"),
        ({"Authorization": "Bearer wrong-key-of-somebody"}, "The API key is not known here"),
        ({"Authorization": "Basic x"}, "must have the form 'Bearer KEY'"),
    ],
)
async def test_only_those_with_a_key_are_let_in(
    tools: Gateway, headers: dict[str, str], message: str
) -> None:
    answer = await initialize(tools, **headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert message in answer.text


async def test_a_page_of_another_site_is_refused(tools: Gateway) -> None:
    key = {"Authorization": f"Bearer {ALICE_KEY}"}
    assert (await initialize(tools, **key, Origin="https://evil.example")).status_code == 403
    assert (await initialize(tools, **key, Origin="null")).status_code == 403
    assert (await initialize(tools, **key, Origin=tools.url)).status_code == 200


async def test_a_session_is_of_the_one_who_opened_it(tools: Gateway) -> None:
    opened = await initialize(tools, Authorization=f"Bearer {ALICE_KEY}")
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    stolen = await initialize(tools, Authorization=f"Bearer {BOB_KEY}", **session)
    assert stolen.status_code == 404
    gone = await initialize(tools, Authorization=f"Bearer {ALICE_KEY}", **{"Mcp-Session-Id": "x"})
    assert gone.status_code == 404


async def test_sessions_are_limited_and_come_free_when_they_end(
    make: Make, shared: Gateway
) -> None:
    gateway = make(
        f'[targets.peer]\nbase_url = "{shared.url}"\ndefault = true\n'
        "[remote]\nmcp = true\nmax_mcp_sessions = 5\nmax_mcp_sessions_per_caller = 3\n"
    ).start()
    opened = [await initialize(gateway) for _ in range(3)]
    assert [answer.status_code for answer in opened] == [200] * 3
    refused = await initialize(gateway)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    body = refused.json()
    assert (body["jsonrpc"], body["id"]) == ("2.0", None)
    assert "max_mcp_sessions_per_caller" in body["error"]["message"]
    async with http_client(headers={"Mcp-Session-Id": opened[0].headers["mcp-session-id"]}) as http:
        assert (await http.delete(f"{gateway.url}/mcp")).status_code == 200
    assert (await initialize(gateway)).status_code == 200
    # What is no way to open a session costs none.
    async with http_client() as http:
        for _ in range(5):
            assert (await http.post(f"{gateway.url}/mcp", json={})).status_code >= 400


async def test_the_address_is_not_there_unless_it_is_configured(shared: Gateway) -> None:
    assert (await initialize(shared)).status_code == 404


async def test_too_much_is_refused(tools: Gateway) -> None:
    key = {"Authorization": f"Bearer {ALICE_KEY}", "Content-Type": "application/json"}
    async with http_client(headers=key) as http:
        answer = await http.post(f"{tools.url}/mcp", content=b" " * (10 * 1024 * 1024 + 1))
    assert answer.status_code == 413


async def test_too_long_a_list_is_refused_before_it_is_read(tools: Gateway) -> None:
    key = {"Authorization": f"Bearer {ALICE_KEY}"}
    request = INITIALIZE | {"params": {"capabilities": {"experimental": ["a"] * 1_000_000}}}
    async with http_client(headers=key) as http:
        answer = await http.post(f"{tools.url}/mcp", json=request)
    assert answer.status_code == 400
    assert "experimental: makes the request hold more than 100,000 values" in answer.text
    assert (await initialize(tools, **key)).status_code == 200


async def test_an_open_stream_does_not_hold_up_the_end(make: Make, shared: Gateway) -> None:
    gateway = make(
        f'[targets.peer]\nbase_url = "{shared.url}"\ndefault = true\n[remote]\nmcp = true\n'
    ).start()
    assert f"MCP       {gateway.url}/mcp" in gateway.stdout
    opened = await initialize(gateway)
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    async with http_client(headers=headers) as http, http.stream("GET", f"{gateway.url}/mcp") as it:
        assert it.status_code == 200
        assert await asyncio.to_thread(gateway.stop) == 0
    # It did not have to be cut off, and nothing went wrong.
    assert gateway.stderr == ""
