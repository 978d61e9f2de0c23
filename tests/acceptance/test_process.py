"""The process: how it starts, what it refuses, how it stops, and what a restart finds."""

import asyncio
import shutil
import signal
import socket
import subprocess

import httpx
import pytest
from tests.acceptance.conftest import KEYS, Make, eventually
from tests.acceptance.gateway import DEADLINE_S, Gateway, http_client
from tests.acceptance.raw import (
    Event,
    call,
    envelope,
    message_params,
    send,
    state_of,
    streamed,
)


async def test_a_stream_is_resumed_after_a_crash(make: Make) -> None:
    gateway = make().start()
    script = message_params("stream 3; hang")
    async with streamed(gateway, "SendStreamingMessage", script) as stream:
        seen = [await stream.event() for _ in range(4)]
        gateway.kill()
    task_id = seen[0].result["task"]["id"]

    gateway.start()
    rest = await _resumed(gateway, task_id, seen[-1])
    assert [event.id for event in seen + rest] == [*range(1, len(seen + rest) + 1)]
    # What ran when the process died cannot go on, and its caller is told.
    assert rest[-1].state == "TASK_STATE_FAILED"
    assert await state_of(gateway, task_id) == "TASK_STATE_FAILED"


async def test_a_question_survives_a_crash(make: Make) -> None:
    gateway = make().start()
    script = message_params("say one; ask and?")
    async with streamed(gateway, "SendStreamingMessage", script) as stream:
        seen = await stream.events()
    task = seen[0].result["task"]
    gateway.kill()

    gateway.start()
    params = {"id": task["id"]}
    async with streamed(gateway, "SubscribeToTask", params, last_event_id=seen[-1].id) as stream:
        done = await send(gateway, "say two", taskId=task["id"])
        rest = await stream.events()
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["contextId"] == task["contextId"]
    assert [event.id for event in seen + rest] == [*range(1, len(seen + rest) + 1)]
    assert rest[-1].state == "TASK_STATE_COMPLETED"


async def test_a_stop_lets_work_finish(make: Make) -> None:
    gateway = make().start()
    waiting = await send(gateway, "ask who?")
    params = {"id": waiting["id"]}
    sign = gateway.folder / "go-on"
    sending = asyncio.create_task(send(gateway, str(sign), agent="test/patient"))
    await eventually(lambda: _is_running(gateway))
    async with (
        streamed(gateway, "SubscribeToTask", params) as idle,
        http_client() as http,
    ):
        opening = await idle.event()
        gateway.terminate()
        # While it drains it still answers, and says that it wants no new work.
        await eventually(lambda: _answers(http, gateway, 503))
        body = envelope("SendMessage", message_params("say more"))
        headers = {"A2A-Version": "1.0"}
        refused = await http.post(gateway.jsonrpc_url, json=body, headers=headers)
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        assert (await http.get(f"{gateway.url}/healthz")).status_code == 200
        assert not sending.done()
        sign.touch()
        blocks = [block async for block in idle.blocks()]
    assert (await sending)["artifacts"][0]["parts"] == [{"text": "done"}]
    assert blocks == [
        b": the gateway is shutting down; resume with Last-Event-ID: %d" % (opening.id or 0)
    ]
    assert gateway.wait() == 0

    gateway.start()
    async with streamed(gateway, "SubscribeToTask", params, last_event_id=opening.id) as idle:
        await call(gateway, "CancelTask", params)
        *_, last = await idle.events()
    assert last.state == "TASK_STATE_CANCELED"
    assert gateway.stop() == 0


async def test_a_stop_does_not_wait_for_ever(make: Make) -> None:
    gateway = make("[server]\ndrain_s = 0.2").start()
    sending = asyncio.create_task(send(gateway, "hang"))
    await eventually(lambda: _is_running(gateway))
    gateway.terminate()
    task = await sending
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "gateway stopped" in task["status"]["message"]["parts"][0]["text"]
    assert gateway.wait() == 0
    gateway.start()
    assert await state_of(gateway, task["id"]) == "TASK_STATE_FAILED"


async def test_a_second_ctrl_c_does_not_wait_for_what_runs(make: Make) -> None:
    gateway = make("[server]\ndrain_s = 600").start()
    sending = asyncio.create_task(send(gateway, "hang"))
    await eventually(lambda: _is_running(gateway))
    gateway.process.send_signal(signal.SIGINT)
    async with http_client() as http:
        await eventually(lambda: _answers(http, gateway, 503))
    assert not sending.done()
    gateway.process.send_signal(signal.SIGINT)
    task = await sending
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert gateway.wait() == 0
    assert "Traceback" not in gateway.stderr


def test_ctrl_c_is_a_stop_as_well(make: Make) -> None:
    gateway = make().start()
    gateway.process.send_signal(signal.SIGINT)
    assert gateway.wait() == 0
    assert "Traceback" not in gateway.stderr


async def test_a_gateway_whose_terminal_is_gone_lets_work_finish_and_stops(make: Make) -> None:
    gateway = make()
    with gateway.on_terminal():
        gateway.start()
        sign = gateway.folder / "go-on"
        sending = asyncio.create_task(send(gateway, str(sign), agent="test/patient"))
        await eventually(lambda: _is_running(gateway))
        # Somebody else's SIGHUP, while the terminal is there, is no reason to stop.
        gateway.process.send_signal(signal.SIGHUP)
        await eventually(lambda: _has_logged(gateway, "the configuration is reloaded"))
    await eventually(lambda: _has_logged(gateway, "the terminal is gone"))
    async with http_client() as http:
        await eventually(lambda: _answers(http, gateway, 503))
    sign.touch()
    assert (await sending)["status"]["state"] == "TASK_STATE_COMPLETED"
    assert gateway.wait() == 0
    assert "Traceback" not in gateway.stderr


async def test_under_nohup_a_hangup_means_nothing(make: Make) -> None:
    gateway = make()
    gateway.before = ("nohup",)
    gateway.start()
    gateway.process.send_signal(signal.SIGHUP)
    assert (await send(gateway, "say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "SIGHUP" not in gateway.stderr
    assert gateway.stop() == 0


def test_a_second_process_on_the_same_data_is_refused(make: Make) -> None:
    first = make().start()
    second = make(folder=first.folder / "second")
    second.launch("--data", str(first.folder / "data"))
    assert second.wait() == 1
    assert f"in use by process {first.process.pid}" in second.stderr
    assert "Stop that process" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_in_use_is_refused(make: Make) -> None:
    gateway = make()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        gateway.launch("--port", str(port))
        assert gateway.wait() == 1
    assert (
        f"error: 127.0.0.1:{port} is already in use. Stop the program that listens"
        in gateway.stderr
    )
    assert "--port" in gateway.stderr
    assert "Traceback" not in gateway.stderr


def test_a_host_that_is_not_there_is_refused(make: Make) -> None:
    gateway = make(KEYS)
    gateway.launch("--host", "no-such-host.invalid")
    assert gateway.wait() == 1
    assert "no-such-host.invalid:0 is not an address of this machine" in gateway.stderr
    assert "--host" in gateway.stderr


def test_an_open_address_without_keys_is_refused(make: Make) -> None:
    gateway = make()
    gateway.launch("--host", "0.0.0.0")
    assert gateway.wait() == 2
    assert "no key is configured" in gateway.stderr
    assert "[auth.keys.me]" in gateway.stderr


async def test_an_open_address_with_keys_wants_one_of_everybody(make: Make) -> None:
    gateway = make(KEYS).start("--host", "0.0.0.0")
    answer = await call(gateway, "GetTask", {"id": "any"})
    assert answer["error"]["data"][0]["reason"] == "UNAUTHENTICATED"


async def _resumed(gateway: Gateway, task_id: str, last: Event) -> list[Event]:
    params = {"id": task_id}
    async with streamed(gateway, "SubscribeToTask", params, last_event_id=last.id) as stream:
        return await stream.events()


async def _answers(http: httpx.AsyncClient, gateway: Gateway, status: int) -> bool:
    return (await http.get(f"{gateway.url}/readyz")).status_code == status


async def _has_logged(gateway: Gateway, text: str) -> bool:
    return text in gateway.stderr


async def _is_running(gateway: Gateway) -> bool:
    async with http_client() as http:
        figures = (await http.get(f"{gateway.url}/metrics")).text
    return "trunkline_turns_running 1.0" in figures


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_line_to_try_speaks_the_version_of_the_agent(make: Make) -> None:
    agents = """
    [agents."test/strict"]
    name = "Insists on a version"
    default = true
    dialect = "v1.0"
    default_version = "0.3"
    backend = { kind = "echo" }
    """
    gateway = make(agents=agents).start()
    [line] = [one for one in gateway.stdout.splitlines() if one.strip().startswith("curl ")]
    run = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=DEADLINE_S)
    assert "TASK_STATE_COMPLETED" in run.stdout
