"""The quick starts of seed 003 against a gateway process, with another host and another token; and
the SDK on the same addresses.

The token is an API key of the configuration, which is a bearer token like any other.
"""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as a2a
from tests.acceptance import hub_quick_starts as seed
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway, http_client
from tests.acceptance.sdk import connect, text_of

TOKEN = "cw_sess_0123456789abcdef0123456789abcdef"

CONFIG = f"""
[auth]
anonymous = "never"
[auth.keys.alice]
key = "{TOKEN}"
[agents."{seed.HANDLE}"]
name = "rust expert"
description = "answers Rust questions"
profile = "hub"
backend = {{ kind = "scripted" }}
"""

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("hub"), CONFIG) as made:
        yield made.start()


def here(text: str, hub: Gateway, token: str = TOKEN) -> str:
    """The text of the seed with the host and the token of this gateway."""
    assert seed.HOST in text or seed.TOKEN in text
    return text.replace(seed.HOST, hub.url).replace(seed.TOKEN, token)


def shell(command: str) -> str:
    # The sample shows the progress of the download, which is no part of the answer.
    run = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    return run.stdout


@needs_curl
def test_curl_discovers_the_card(hub: Gateway) -> None:
    card = json.loads(shell(here(seed.DISCOVER, hub)))
    assert card["name"] == "rust expert"
    assert card["version"] == "1"
    assert card["url"] == f"{hub.url}/api/a2a/v1/agents/{seed.HANDLE}"
    assert [skill["id"] for skill in card["skills"]] == ["ask"]


@needs_curl
def test_curl_sends_a_question_again_and_again(hub: Gateway) -> None:
    ids = set()
    for _ in range(3):
        answer = json.loads(shell(here(seed.SEND, hub)))
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", "client-1")
        task = answer["result"]
        assert task["contextId"] == "m1"
        assert task["status"]["state"] == "COMPLETED"
        assert task["history"][-1]["parts"] == [{"text": "what is a lifetime in rust?"}]
        ids.add(task["id"])
    assert len(ids) == 3


@needs_curl
def test_curl_streams(hub: Gateway) -> None:
    lines = [line for line in shell(here(seed.STREAM, hub)).splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    first, last = [json.loads(line.removeprefix("data: "))["task"] for line in lines]
    assert first["status"]["state"] == "WORKING"
    assert last["status"]["state"] == "COMPLETED"
    assert last["history"][-1]["parts"] == [{"text": "..."}]


@needs_curl
def test_curl_with_a_wrong_token_is_refused(hub: Gateway) -> None:
    answer = json.loads(shell(here(seed.SEND, hub, "cw_sess_wrong")))
    assert "result" not in answer


def javascript(hub: Gateway, *, question: str = "what's a lifetime?", token: str = TOKEN) -> str:
    """The TypeScript of the seed without its types, which Node.js runs."""
    plain, count = re.subn(r":\s*(?:string|any)(?=[,)])", "", here(seed.TYPESCRIPT, hub, token))
    assert count == 4
    return plain.replace('"what\'s a lifetime?"', json.dumps(question))


def node(folder: Path, program: str) -> "subprocess.CompletedProcess[str]":
    script = folder / "ask.mjs"
    script.write_text(program)
    return subprocess.run(["node", script], capture_output=True, text=True, timeout=DEADLINE_S)


@needs_node
def test_the_typescript_client_asks(hub: Gateway, tmp_path: Path) -> None:
    run = node(tmp_path, javascript(hub))
    assert (run.returncode, run.stdout) == (0, "what's a lifetime?\n"), run.stderr


@needs_node
@pytest.mark.parametrize(
    ("question", "token", "error"),
    [
        ("fail out of ideas", TOKEN, "task FAILED: out of ideas"),
        ("hello", "cw_sess_wrong", "API key is not known"),
    ],
    ids=["failed-task", "wrong-token"],
)
def test_the_typescript_client_says_why_it_has_no_answer(
    hub: Gateway, tmp_path: Path, question: str, token: str, error: str
) -> None:
    run = node(tmp_path, javascript(hub, question=question, token=token))
    assert run.returncode != 0
    assert error in run.stderr


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_the_sdk_speaks_its_version_on_the_same_address(
    hub: Gateway, binding: str, version: str
) -> None:
    async with connect(hub, binding, version, agent=seed.HANDLE, key=TOKEN) as peer:
        task = await peer.send("say all is well")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert text_of(task) == "all is well"
        assert (await peer.get(task.id)).status.state == a2a.TASK_STATE_COMPLETED
        events = [event async for event in peer.stream("stream 3")]
        assert events[0].HasField("task")
        assert events[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
        assert any(event.HasField("artifact_update") for event in events)
        assert peer.spoken() == {(binding, version)}


async def test_the_sdk_understands_the_card_of_the_hub(hub: Gateway) -> None:
    """It reads it as a card of 0.3, which the address speaks as well."""
    async with http_client() as http:
        card = await A2ACardResolver(http, hub.agent_url(seed.HANDLE)).get_agent_card(
            relative_card_path="/agent-card.json"
        )
    assert card.name == "rust expert"
    assert [interface.url for interface in card.supported_interfaces] == [
        hub.agent_url(seed.HANDLE)
    ]


async def test_a_hundred_callers_at_once_get_their_own_answers(hub: Gateway) -> None:
    url = hub.agent_url(seed.HANDLE)
    headers = {"Authorization": f"Bearer {TOKEN}"}

    async def ask(http: httpx.AsyncClient, number: int) -> dict[str, Any]:
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": f"say {number}"}]}
        body = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "SendMessage",
            "params": {"message": message},
        }
        answer = (await http.post(url, json=body, headers=headers)).json()
        assert answer["id"] == number
        task: dict[str, Any] = answer["result"]
        return task

    async with http_client() as http:
        tasks = await asyncio.gather(*(ask(http, number) for number in range(100)))
    assert [task["history"][-1]["parts"][0]["text"] for task in tasks] == [
        str(number) for number in range(100)
    ]
    assert len({task["id"] for task in tasks}) == 100


async def test_an_agent_that_went_away_is_offline_until_it_is_back(tmp_path: Path) -> None:
    """H-11 with a real agent behind the hub, which is stopped and started again."""
    upstream = '[agents."acme/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'
    folders = [tmp_path / "upstream", tmp_path / "hub"]
    for folder in folders:
        folder.mkdir()
    with gateway(folders[0], upstream) as there:
        port = str(there.start().port)
        backend = f'backend = {{ kind = "a2a", url = "{there.agent_url("acme/echo")}" }}'
        config = CONFIG.replace('backend = { kind = "scripted" }', backend)
        with gateway(folders[1], config) as hub:
            url = hub.start().agent_url(seed.HANDLE)
            async with http_client(headers={"Authorization": f"Bearer {TOKEN}"}) as http:

                async def ask() -> tuple[str, str]:
                    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
                    params = {"message": message}
                    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
                    task = (await http.post(url, json=body)).json()["result"]
                    return task["status"]["state"], task["history"][-1]["parts"][0]["text"]

                assert await ask() == ("COMPLETED", "hi")
                there.kill()
                for _ in range(3):
                    assert await ask() == ("FAILED", "agent channel offline")
                there.start("--port", port)

                async def is_back() -> bool:
                    return await ask() == ("COMPLETED", "hi")

                await eventually(is_back)
