"""The quick starts of seed 003 against a gateway with a hub, with another host and token; and the
SDK on the same addresses.

The agent is published through the hub, and the token is a session that a person got by signing in.
"""

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as a2a
from msgspec import Struct
from tests.acceptance import hub_quick_starts as seed
from tests.acceptance.command import Shell
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway, http_client
from tests.acceptance.sdk import connect, text_of

CONFIG = """
[hub]
style = "clawborrator"
"""
PASSWORD = "correct horse"
TURNS = 20


class SignedIn(Struct):
    """A gateway with the agent of the seed, and the session of a person at it."""

    gateway: Gateway
    token: str

    @property
    def url(self) -> str:
        return self.gateway.agent_url(seed.HANDLE)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def set_up(gateway: Gateway, *backend: str) -> SignedIn:
    """What an operator does on the machine, and then a person with a browser and a program."""
    shell = Shell(gateway.folder)
    place = (
        "--data",
        str(gateway.folder / "data"),
        "--config",
        str(gateway.folder / "trunkline.toml"),
    )
    about = ("--name", "rust expert", "--description", "answers Rust questions")
    limits = ("--concurrency", "20")
    added = shell.run(
        *("agent", "add", seed.HANDLE, *backend, *about, *limits, "--profile", "hub", "--publish"),
        *place,
    )
    assert added.code == 0, added.err
    person = shell.run("user", "add", "ada", *place, stdin=PASSWORD.encode())
    assert person.code == 0, person.err
    return SignedIn(gateway, session_of("ada", gateway.url))


def session_of(login: str, url: str) -> str:
    """A session by the flow for programs (section 4 of the seed)."""
    verifier = "v" * 64
    digest = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "redirect_uri": "http://localhost:45678/callback",
        "state": "s",
        "code_challenge": digest,
        "code_challenge_method": "S256",
    }
    with httpx.Client(base_url=url, trust_env=False, timeout=DEADLINE_S) as browser:
        page = browser.get("/api/v1/auth/oauth/start", params=query, follow_redirects=True)
        found = re.search(r'name="csrf" value="([^"]*)"', page.text)
        assert found is not None, page.text
        form = {"csrf": found[1], "login": login, "password": PASSWORD}
        headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        answer = browser.post(page.url.join("sign-in"), data=form, headers=headers)
        done = browser.get(answer.url.join(answer.headers["location"]))
        code = dict(parse_qsl(urlsplit(done.headers["location"]).query))["code"]
        told = browser.post(
            "/api/v1/auth/oauth/token", json={"code": code, "code_verifier": verifier}
        )
    token: str = told.json()["session"]["token"]
    assert re.fullmatch(r"cw_sess_[0-9a-f]{32}", token)
    return token


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignedIn]:
    with gateway(tmp_path_factory.mktemp("hub"), CONFIG) as made:
        yield set_up(made.start(), "--backend", "scripted")


def here(text: str, hub: SignedIn, token: str = "") -> str:
    """The text of the seed with the host and the token of this gateway."""
    assert seed.HOST in text or seed.TOKEN in text
    return text.replace(seed.HOST, hub.gateway.url).replace(seed.TOKEN, token or hub.token)


def shell(command: str) -> str:
    # The sample shows the progress of the download, which is no part of the answer.
    run = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    return run.stdout


@needs_curl
def test_curl_discovers_the_card(hub: SignedIn) -> None:
    card = json.loads(shell(here(seed.DISCOVER, hub)))
    assert card["name"] == "rust expert"
    assert card["version"] == "1"
    assert card["url"] == hub.url
    assert [skill["id"] for skill in card["skills"]] == ["ask"]


@needs_curl
def test_curl_sends_a_question_again_and_again(hub: SignedIn) -> None:
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
def test_curl_streams(hub: SignedIn) -> None:
    lines = [line for line in shell(here(seed.STREAM, hub)).splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    first, last = [json.loads(line.removeprefix("data: "))["task"] for line in lines]
    assert first["status"]["state"] == "WORKING"
    assert last["status"]["state"] == "COMPLETED"
    assert last["history"][-1]["parts"] == [{"text": "..."}]


@needs_curl
def test_curl_with_a_wrong_token_is_refused(hub: SignedIn) -> None:
    answer = json.loads(shell(here(seed.SEND, hub, "cw_sess_wrong")))
    assert "result" not in answer


def javascript(hub: SignedIn, *, question: str = "what's a lifetime?", token: str = "") -> str:
    """The TypeScript of the seed without its types, which Node.js runs."""
    plain, count = re.subn(r":\s*(?:string|any)(?=[,)])", "", here(seed.TYPESCRIPT, hub, token))
    assert count == 4
    return plain.replace('"what\'s a lifetime?"', json.dumps(question))


def node(folder: Path, program: str) -> "subprocess.CompletedProcess[str]":
    script = folder / "ask.mjs"
    script.write_text(program)
    return subprocess.run(["node", script], capture_output=True, text=True, timeout=DEADLINE_S)


@needs_node
def test_the_typescript_client_asks(hub: SignedIn, tmp_path: Path) -> None:
    run = node(tmp_path, javascript(hub))
    assert (run.returncode, run.stdout) == (0, "what's a lifetime?\n"), run.stderr


@needs_node
@pytest.mark.parametrize(
    ("question", "token", "error"),
    [
        ("fail out of ideas", "", "task FAILED: out of ideas"),
        ("hello", "cw_sess_wrong", "API key is not known"),
    ],
    ids=["failed-task", "wrong-token"],
)
def test_the_typescript_client_says_why_it_has_no_answer(
    hub: SignedIn, tmp_path: Path, question: str, token: str, error: str
) -> None:
    run = node(tmp_path, javascript(hub, question=question, token=token))
    assert run.returncode != 0
    assert error in run.stderr


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["jsonrpc", "rest"])
async def test_the_sdk_speaks_its_version_on_the_same_address(
    hub: SignedIn, binding: str, version: str
) -> None:
    async with connect(hub.gateway, binding, version, agent=seed.HANDLE, key=hub.token) as peer:
        task = await peer.send("say all is well")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert text_of(task) == "all is well"
        assert (await peer.get(task.id)).status.state == a2a.TASK_STATE_COMPLETED
        events = [event async for event in peer.stream("stream 3")]
        assert events[0].HasField("task")
        assert events[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
        assert any(event.HasField("artifact_update") for event in events)
        assert peer.spoken() == {(binding, version)}


async def test_the_sdk_understands_the_card_of_the_hub(hub: SignedIn) -> None:
    """It reads it as a card of 0.3, which the address speaks as well."""
    async with http_client() as http:
        card = await A2ACardResolver(http, hub.url).get_agent_card(
            relative_card_path="/agent-card.json"
        )
    assert card.name == "rust expert"
    assert [interface.url for interface in card.supported_interfaces] == [hub.url]


async def test_a_hundred_calls_get_their_own_answers(hub: SignedIn) -> None:
    # Beyond the turns that the agent runs at once, the seed answers that it is busy.
    turns = asyncio.Semaphore(TURNS)

    async def ask(http: httpx.AsyncClient, number: int) -> dict[str, Any]:
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": f"say {number}"}]}
        body = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "SendMessage",
            "params": {"message": message},
        }
        async with turns:
            answer = (await http.post(hub.url, json=body, headers=hub.headers)).json()
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
        with gateway(folders[1], CONFIG) as made:
            there_at = f"url={there.agent_url('acme/echo')}"
            hub = set_up(made.start(), "--backend", "a2a", there_at)
            async with http_client(headers=hub.headers) as http:

                async def ask() -> tuple[str, str]:
                    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
                    params = {"message": message}
                    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
                    task = (await http.post(hub.url, json=body)).json()["result"]
                    return task["status"]["state"], task["history"][-1]["parts"][0]["text"]

                assert await ask() == ("COMPLETED", "hi")
                there.kill()
                for _ in range(3):
                    assert await ask() == ("FAILED", "agent channel offline")
                there.start("--port", port)

                async def is_back() -> bool:
                    return await ask() == ("COMPLETED", "hi")

                await eventually(is_back)
