"""Official clients, curl and browsers with an agent behind a relay, which is behind nginx."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, cast

import httpx
import pytest
from msgspec import Struct
from tests.acceptance import test_js_sdk as js
from tests.acceptance.conftest import SPOKEN
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway, http_client
from tests.acceptance.nginx import EXAMPLE, NGINX, free_port, nginx
from tests.acceptance.raw import Event, Stream, envelope, message_params
from tests.acceptance.relay_hosts import ALICE_KEY, HOST_TOKEN, RELAY, until
from tests.acceptance.sdk import connect
from tests.acceptance.test_bridge import SDK03, SDK03_PYTHON

HOST = f"""
[relay]
url = "ws://127.0.0.1:{{port}}/agent"
tenant = "acme"
agents = {{{{ helper = "test/scripted", greeter = "test/greeter" }}}}
token = "{HOST_TOKEN}"
mode = "relay"
[agents."test/scripted"]
name = "Scripted"
default = true
backend = {{{{ kind = "scripted" }}}}
[agents."test/greeter"]
name = "Greeter"
backend = {{{{ kind = "python", target = "code.py:greeter" }}}}
"""
CODE = """
from trunkline import agent

@agent(direct=True)
async def greeter(turn):
    return turn.reply(f"Hello, {turn.text}!")
"""


class Relayed(Struct):
    """What callers have of it."""

    url: str
    host: Gateway
    relay: Gateway

    def agent(self, name: str = "helper") -> str:
        return f"{self.url}/t/acme/a2a/{name}"


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relayed]:
    folder = tmp_path_factory.mktemp("relayed")
    port, own_port = free_port(), free_port()
    (folder / "relay").mkdir()
    (folder / "host").mkdir()
    (folder / "host" / "code.py").write_text(CODE)
    with ExitStack() as stack:
        if NGINX is None:
            own_port = port
        else:
            example = EXAMPLE.read_text()
            stack.enter_context(nginx(folder / "nginx", example, port=port, upstream_port=own_port))
        relay = stack.enter_context(gateway(folder / "relay", RELAY))
        host = stack.enter_context(gateway(folder / "host", HOST.format(port=port)))
        relay.launch("--port", str(own_port))
        relay.finish_start()
        host.start()
        made = Relayed(f"http://127.0.0.1:{port}", host, relay)
        asyncio.run(_attached(made))
        yield made
        for side in (relay, host):
            side.check_log()


KEY = {"Authorization": f"Bearer {ALICE_KEY}"}


async def _attached(relayed: Relayed) -> None:
    async with asyncio.timeout(DEADLINE_S), http_client(headers=KEY) as http:
        for name in ("helper", "greeter"):
            status = 0
            while status != 200:
                await asyncio.sleep(0.05)
                status = (await http.get(f"{relayed.agent(name)}/tasks")).status_code


CHECKS: tuple[Callable[..., None], ...] = (
    js.test_it_reads_the_card_and_sends_and_gets,
    js.test_it_streams,
    js.test_it_answers_a_question,
    js.test_it_gets_direct_answers,
    js.test_it_sees_a_failure,
    js.test_it_follows_a_task_and_cancels_it,
    js.test_it_knows_the_errors_by_their_type,
)


@pytest.mark.skipif(not js.INSTALLED.exists(), reason="@a2a-js/sdk is missing: ./check javascript")
@pytest.mark.parametrize(
    "spoken",
    [
        pytest.param(spoken, marks=[pytest.mark.full] if number else [])
        for number, spoken in enumerate(SPOKEN)
    ],
    ids=["-".join(spoken) for spoken in SPOKEN],
)
def test_the_javascript_client_does_everything(relayed: Relayed, spoken: tuple[str, str]) -> None:
    urls = [f"{relayed.agent()}/", *spoken, f"{relayed.agent('greeter')}/", ALICE_KEY]
    run = subprocess.run(
        ["node", js.FOLDER / "story.mjs", *urls],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    for check in CHECKS:
        check(told)
    js.test_it_reads_parts_of_every_kind(told, spoken)
    js.test_it_lists(told, spoken)


@pytest.mark.skipif(not SDK03_PYTHON.exists(), reason="a2a-sdk 0.3 is missing: ./check peers")
def test_a2a_sdk_of_0_3_does_everything(relayed: Relayed) -> None:
    run = subprocess.run(
        [SDK03_PYTHON, SDK03 / "relayed.py", relayed.agent(), ALICE_KEY],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    for told in json.loads(run.stdout).values():
        assert told["sent"] == "completed"
        assert told["same"]
        assert told["streamed"][0] == "task"
        assert told["said"] == "1 2 3 "
        assert told["opening"]
        assert (told["canceled"], told["followed"]) == ("canceled", "canceled")


def curl(*arguments: str) -> str:
    key = f"Authorization: Bearer {ALICE_KEY}"
    run = subprocess.run(
        ["curl", "-sN", "--max-time", "20", "-H", key, "-H", "A2A-Version: 1.0", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    return run.stdout


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_curl_calls_the_agent(relayed: Relayed, is_streamed: bool) -> None:
    json_type = "Content-Type: application/json"
    rpc, rest = ("SendStreamingMessage", "stream") if is_streamed else ("SendMessage", "send")
    params = message_params("say hello")
    answers = [
        curl("-H", json_type, "-d", json.dumps(envelope(rpc, params)), relayed.agent()),
        curl("-H", json_type, "-d", json.dumps(params), f"{relayed.agent()}/message:{rest}"),
    ]
    for answer in answers:
        assert "TASK_STATE_COMPLETED" in answer
        assert "hello" in answer
        assert answer.startswith("id: 1\n") is is_streamed


@asynccontextmanager
async def event_source(url: str, last_event_id: str = "") -> AsyncIterator[Stream]:
    """What a browser sends for `new EventSource(url)`, and when it connects again."""
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache", **KEY}
    if last_event_id:
        headers["Last-Event-ID"] = last_event_id
    async with http_client(headers=headers) as http, http.stream("GET", url) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream"
        yield Stream(response)


async def test_a_browser_goes_on_behind_the_last_event_that_it_has(relayed: Relayed) -> None:
    headers = {"A2A-Version": "1.0", **KEY}
    async with http_client(headers=headers) as http:
        params = message_params("stream 30 every 0.02")
        params["configuration"] = {"returnImmediately": True}
        answer = await http.post(f"{relayed.agent()}/message:send", json=params)
        task = answer.json()["task"]["id"]
    url = f"{relayed.agent()}/tasks/{task}:subscribe?A2A-Version=1.0"
    seen: list[Event] = []
    async with event_source(url) as stream:
        # A snapshot, and some events behind it.
        seen += [await stream.event() for _ in range(6)]
    async with event_source(url, str(seen[-1].id)) as stream:
        seen += await stream.events()
    ids = [event.id or 0 for event in seen]
    assert ids[1:] == list(range(ids[0] + 1, ids[0] + len(ids)))
    assert seen[-1].data["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_events_are_not_held_back(relayed: Relayed) -> None:
    """By the relay, or by nginx in front of it."""
    async with http_client(headers={"A2A-Version": "1.0", **KEY}) as http:
        url = f"{relayed.agent()}/message:stream"
        async with http.stream("POST", url, json=message_params("say hi\nhang")) as response:
            stream = Stream(response)
            first = await asyncio.wait_for(stream.event(), 10)
            task = first.data["task"]["id"]
            canceled = await http.post(f"{relayed.agent()}/tasks/{task}:cancel", json={})
            assert canceled.json()["status"]["state"] == "TASK_STATE_CANCELED"
            rest = await stream.events()
    assert rest[-1].data["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_credential_of_the_relay_is_needed(relayed: Relayed) -> None:
    async with http_client() as http:
        answers: list[httpx.Response] = [
            await http.post(f"{relayed.agent(name)}/message:send", json=message_params("hi"))
            for name in ("helper", "absent")
        ]
    assert [answer.status_code for answer in answers] == [401, 401]


async def test_official_clients_learn_that_a_stream_was_lost(relayed: Relayed) -> None:
    """Over each binding, in each version: the gateway with the agent is killed, and comes back."""
    begun = 0

    async def told(binding: str, version: str) -> str:
        nonlocal begun
        made = cast("Gateway", _Peers(relayed))
        async with connect(made, binding, version, agent="helper", key=ALICE_KEY) as peer:
            events = peer.stream("stream 1000 every 0.05")
            await anext(events)
            begun += 1
            with pytest.raises(Exception, match="did not end its answer") as raised:
                async for _ in events:
                    pass
            return type(raised.value).__name__

    telling = [asyncio.ensure_future(told(*spoken)) for spoken in SPOKEN]
    await until(lambda: begun == len(SPOKEN))
    relayed.host.kill()
    await asyncio.to_thread(relayed.host.start)
    async with asyncio.timeout(DEADLINE_S):
        print(await asyncio.gather(*telling))
    await _attached(relayed)


class _Peers(Struct):
    """As much of a gateway as `connect` needs."""

    relayed: Relayed

    def agent_url(self, name: str) -> str:
        return self.relayed.agent(name)
