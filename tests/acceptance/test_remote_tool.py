"""`remote_agent` against real agents: the gateway, and a2a-sdk in both its versions."""

import asyncio
import json
import os
import signal as signals
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import DEADLINE_S, SOURCE, Gateway
from tests.acceptance.remote import WAYS, free_port, sdk_server, served

from trunkline.clock import SystemClock
from trunkline.remote import Target
from trunkline.remote.tool import RemoteAgentTool, ToolConfig, open_remote_agent

NUMBERS = "".join(f"{n} " for n in range(1, 21))


@pytest.fixture(scope="module")
def sdk() -> Iterator[str]:
    with served(*sdk_server()) as url:
        yield url


@pytest.fixture(params=WAYS, ids=["-".join(way) for way in WAYS])
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    given: tuple[str, str] = request.param
    return given


def config(url: str, way: tuple[str, str] = ("JSONRPC", "1.0")) -> ToolConfig:
    target = Target(
        alias="peer", url=url, transports=(way[0],), version=way[1], default=True, tags=("test",)
    )
    return ToolConfig(enabled=True, targets=(target,))


@pytest.fixture
async def ours(
    shared: Gateway, way: tuple[str, str], tmp_path: Path
) -> AsyncIterator[RemoteAgentTool]:
    async with open_remote_agent(config(shared.url, way), handles=tmp_path / "h.db") as tool:
        yield tool


@pytest.fixture
async def theirs(sdk: str, way: tuple[str, str]) -> AsyncIterator[RemoteAgentTool]:
    async with open_remote_agent(config(sdk, way)) as tool:
        yield tool


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"action": "send", "parts": [{"kind": "text", "text": text}], **more}


async def good(tool: RemoteAgentTool, request: dict[str, Any], **more: Any) -> dict[str, Any]:
    result = await tool(request, **more)
    assert result["ok"], result
    return result


def task_of(result: dict[str, Any]) -> dict[str, Any]:
    task: dict[str, Any] = result["summary"]["continuation"]["task"]
    return task


async def test_the_gateway_is_listed(ours: RemoteAgentTool) -> None:
    result = await good(ours, {"action": "list_targets"})
    (entry,) = result["summary"]["targets"]
    assert entry["target_name"] == "Scripted"
    assert entry["peer_card"]["capabilities"]["streaming"] is True


async def test_the_gateway_answers(ours: RemoteAgentTool) -> None:
    result = await good(ours, says("say all is well"))
    assert result["summary"]["message_text"] == "all is well"
    assert result["summary"]["response_kind"] == "task"
    assert task_of(result)["status"] == "completed"
    # One shape, whatever the peer speaks.
    assert result["raw"]["kind"] == "task"
    assert result["raw"]["artifacts"][0]["parts"] == [{"kind": "text", "text": "all is well"}]
    again = await good(ours, {"action": "status", "task_handle": task_of(result)["task_handle"]})
    assert again["summary"]["continuation"] == result["summary"]["continuation"]
    assert again["summary"]["message_text"] == "all is well"


async def test_the_gateway_is_followed(ours: RemoteAgentTool) -> None:
    updates: list[Any] = []
    result = await good(ours, says("stream 20", follow_updates=True), on_update=updates.append)
    assert result["summary"]["message_text"] == NUMBERS
    assert len(updates) == len(result["raw"]["events"]) > 2
    assert updates[-1]["summary"]["continuation"] == result["summary"]["continuation"]


async def test_the_gateway_gives_a_required_task_and_its_updates(ours: RemoteAgentTool) -> None:
    request = says("stream 5 every 0.05", task_requirement="required", follow_updates=True)
    result = await good(ours, request)
    assert result["raw"]["events"][0]["kind"] == "task"
    assert result["summary"]["message_text"] == "1 2 3 4 5 "


async def test_a_wait_ends_with_the_task(ours: RemoteAgentTool) -> None:
    result = await good(ours, says("delay 0.1; say done", wait_timeout_ms=20_000))
    assert result["raw"]["kind"] == "task"
    assert result["summary"]["message_text"] == "done"


async def test_a_wait_in_vain_leaves_the_task_which_can_be_watched_and_canceled(
    ours: RemoteAgentTool,
) -> None:
    result = await ours(says("hang", wait_timeout_ms=200))
    assert result["error"]["code"] == "WAIT_TIMEOUT"
    continuation = result["error"]["details"]["continuation"]
    seen = asyncio.Event()
    watch = asyncio.gather(
        ours({"action": "watch", "continuation": continuation}, on_update=lambda _: seen.set())
    )
    await asyncio.wait_for(seen.wait(), DEADLINE_S)
    canceled = await good(ours, {"action": "cancel", "continuation": continuation})
    assert task_of(canceled)["status"] == "canceled"
    assert task_of((await watch)[0])["status"] == "canceled"


async def test_an_abort_can_cancel_what_was_followed(ours: RemoteAgentTool) -> None:
    stop = asyncio.Event()
    result = await ours(
        says("note busy; hang", follow_updates=True, cancel_on_abort=True),
        on_update=lambda _: stop.set(),
        signal=stop,
    )
    assert result["error"]["details"]["remote_task_canceled"] is True, result
    continuation = result["error"]["details"]["continuation"]
    after = await good(ours, {"action": "status", "continuation": continuation})
    assert task_of(after)["status"] == "canceled"


async def test_an_unknown_task_is_an_envelope(ours: RemoteAgentTool) -> None:
    for action in ("status", "watch", "cancel"):
        result = await ours({"action": action, "task_id": "nobody-knows-it"})
        assert result["error"]["code"] == "A2A_SDK_ERROR", result
        assert result["error"]["details"]["reason"] == "TASK_NOT_FOUND", result


async def test_a_question_is_answered_through_the_saved_continuation(
    shared: Gateway, way: tuple[str, str], tmp_path: Path
) -> None:
    handles = tmp_path / "handles.db"
    async with open_remote_agent(config(shared.url, way), handles=handles) as before:
        asked = await good(before, says("ask Which colour?"))
    assert asked["summary"]["message_text"] == "Which colour?"
    assert task_of(asked)["status"] == "input-required"
    saved = json.loads(json.dumps(asked["summary"]["continuation"]))
    async with open_remote_agent(config(shared.url, way), handles=handles) as after:
        done = await good(after, says("say blue", continuation=saved))
    assert task_of(done)["task_handle"] == saved["task"]["task_handle"]
    assert task_of(done)["status"] == "completed"
    assert "blue" in done["summary"]["message_text"]


async def test_a2a_sdk_answers_with_a_task_and_with_a_message(theirs: RemoteAgentTool) -> None:
    task = await good(theirs, says("hello"))
    assert task["summary"]["message_text"] == "hello"
    assert task_of(task)["status"] == "completed"
    message = await good(theirs, says("direct"))
    assert message["summary"]["response_kind"] == "message"
    assert message["summary"]["message_text"] == "straight"
    assert message["raw"]["kind"] == "message"


async def test_a2a_sdk_is_followed(theirs: RemoteAgentTool) -> None:
    result = await good(theirs, says("stream 5", follow_updates=True))
    assert result["summary"]["message_text"] == "0 1 2 3 4 "
    assert task_of(result)["status"] == "completed"


async def test_a2a_sdk_asks_and_goes_on(theirs: RemoteAgentTool) -> None:
    asked = await good(theirs, says("ask"))
    assert task_of(asked)["status"] == "input-required"
    done = await good(theirs, says("blue", continuation=asked["summary"]["continuation"]))
    assert task_of(done)["status"] == "completed"
    assert task_of(done)["task_id"] == task_of(asked)["task_id"]


async def test_an_answer_to_a_question_is_followed(
    ours: RemoteAgentTool, theirs: RemoteAgentTool
) -> None:
    for tool, question, answer in ((ours, "ask Which?", "say blue"), (theirs, "ask", "blue")):
        asked = await good(tool, says(question, follow_updates=True))
        assert task_of(asked)["status"] == "input-required"
        saved = asked["summary"]["continuation"]
        done = await good(tool, says(answer, follow_updates=True, continuation=saved))
        assert task_of(done)["status"] == "completed"
        assert "blue" in done["summary"]["message_text"]


async def test_a2a_sdk_is_waited_for_and_canceled(theirs: RemoteAgentTool) -> None:
    waited = await good(theirs, says("hello", wait_timeout_ms=20_000))
    assert waited["summary"]["message_text"] == "hello"
    started = await good(theirs, says("hang", task_requirement="required"))
    continuation = started["summary"]["continuation"]
    canceled = await good(theirs, {"action": "cancel", "continuation": continuation})
    assert task_of(canceled)["status"] == "canceled"


async def test_what_goes_well_is_not_worth_a_warning(
    ours: RemoteAgentTool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(2):
        await good(ours, {"action": "list_targets"})
        sent = await good(ours, says("stream 3", follow_updates=True))
        continuation = sent["summary"]["continuation"]
        await good(ours, {"action": "status", "continuation": continuation})
    assert [record.message for record in caplog.records if "trunkline" in record.name] == []


async def test_nobody_there_is_an_envelope() -> None:
    async with open_remote_agent(config(f"http://127.0.0.1:{free_port()}")) as tool:
        sent = await tool(says("hello"))
        assert sent["error"]["code"] == "A2A_SDK_ERROR"
        listed = await good(tool, {"action": "list_targets"})
        assert listed["summary"]["targets"][0]["last_refresh_error"]["code"] == "A2A_SDK_ERROR"


KILLED = """
import asyncio, json, os, signal, sys
from pathlib import Path
from trunkline.remote.tool import open_remote_agent

async def main():
    config = {"enabled": True, "targets": [{"alias": "peer", "baseUrl": sys.argv[1]}]}
    async with open_remote_agent(config, handles=Path(sys.argv[2])) as remote_agent:
        request = {"action": "send", "target_alias": "peer",
                   "parts": [{"kind": "text", "text": "ask Which colour?"}]}
        print(json.dumps(await remote_agent(request)), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_the_whole_story_over_a_killed_process(shared: Gateway, tmp_path: Path) -> None:
    """send → input-required → killed and restarted → send with the saved continuation."""
    handles = tmp_path / "handles.db"
    process = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILLED, shared.url, str(handles)],
        capture_output=True,
        timeout=DEADLINE_S,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    assert process.returncode == -signals.SIGKILL, process.stderr
    saved = json.loads(process.stdout)["summary"]["continuation"]
    assert saved["task"]["status"] == "input-required"
    plugin = {"enabled": True, "targets": [{"alias": "peer", "baseUrl": shared.url}]}
    async with open_remote_agent(plugin, handles=handles) as tool:
        by_handle = await good(
            tool, {"action": "status", "task_handle": saved["task"]["task_handle"]}
        )
        assert task_of(by_handle) == saved["task"]
        done = await good(tool, says("say blue", continuation=saved))
        assert task_of(done)["status"] == "completed"


class PatientClock(SystemClock):
    """Waits for the peer in a pause of some length: on a machine that is busy, it may be gone
    for longer than the tool would try."""

    def __init__(self) -> None:
        self.is_back = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if seconds > 1:
            await self.is_back.wait()


async def test_a_watch_goes_on_over_a_restart_of_the_peer(make: Make) -> None:
    gateway, clock = make(), PatientClock()
    port = str(free_port())
    gateway.start("--port", port)
    async with open_remote_agent(config(gateway.url), clock=clock) as tool:
        started = await good(tool, says("hang", task_requirement="required"))
        seen = asyncio.Event()
        watch = asyncio.gather(
            tool(
                {"action": "watch", "continuation": started["summary"]["continuation"]},
                on_update=lambda _: seen.set(),
            )
        )
        await asyncio.wait_for(seen.wait(), DEADLINE_S)
        gateway.kill()
        await asyncio.to_thread(gateway.start, "--port", port)
        clock.is_back.set()
        result = (await asyncio.wait_for(watch, DEADLINE_S))[0]
    # What ran when the peer went down is failed by it, with the reason.
    assert task_of(result)["status"] == "failed", result
    assert result["summary"]["message_text"]


CLAW = """
[agents."test/claw"]
name = "Claw"
profile = "openclaw-inbound"
backend = { kind = "scripted" }
"""


async def test_an_agent_that_answers_without_a_task_is_answered_so_to_the_tool(make: Make) -> None:
    """The tool sends a key to a gateway that honours keys, and a key changes no answer."""
    gateway = make(agents=CLAW).start()
    async with open_remote_agent(config(gateway.url, ("JSONRPC", "0.3"))) as tool:
        first = await good(tool, says("say one"))
        assert first["summary"]["response_kind"] == "message"
        assert first["summary"]["message_text"] == "one"
        assert "task" not in first["summary"]["continuation"]
        going_on = {"continuation": first["summary"]["continuation"]}
        followed = await good(tool, says("stream 2", follow_updates=True, **going_on))
        assert [one["kind"] for one in followed["raw"]["events"]] == ["message"]
        assert followed["summary"]["message_text"] == "1 2 "
        again = await good(
            tool, says("say three", continuation=followed["summary"]["continuation"])
        )
        assert again["summary"]["response_kind"] == "message"


async def test_a_watch_of_a_task_that_a_restart_left_behind_is_one_snapshot(make: Make) -> None:
    """The preset of OpenClaw leaves such a task as it was; nobody works on it any more."""
    gateway = make(agents=CLAW)
    port = str(free_port())
    gateway.start("--port", port)
    async with open_remote_agent(config(gateway.url, ("JSONRPC", "0.3"))) as tool:
        started = await good(tool, says("hang", task_requirement="required"))
        gateway.kill()
        await asyncio.to_thread(gateway.start, "--port", port)
        asked = {"action": "watch", "continuation": started["summary"]["continuation"]}
        # The limit is far from what it takes, and far below the default.
        result = await good(tool, asked | {"timeout_ms": int(DEADLINE_S * 1000)})
    assert [one["kind"] for one in result["raw"]["events"]] == ["task"]
    assert task_of(result)["status"] in ("submitted", "working")
