"""A gateway behind a real nginx on the same machine: who gets in, streams, cards, the doctor."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.conftest import ALICE_KEY, KEYS, Make
from tests.acceptance.gateway import DEADLINE_S, Gateway, http_client
from tests.acceptance.nginx import BARE, EXAMPLE, NGINX, free_port, nginx
from tests.acceptance.raw import Stream, envelope, message_params

from trunkline.model.values import Task
from trunkline.remote import connect

pytestmark = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed: apt-get install nginx-light"
)

KEY = {"Authorization": f"Bearer {ALICE_KEY}"}
SERVERS = {"example": EXAMPLE.read_text(), "bare": BARE}


@pytest.fixture(params=SERVERS)
def proxied(request: pytest.FixtureRequest, make: Make, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway with keys and otherwise default settings; cards name nginx."""
    port, own_port = free_port(), free_port()
    config = f'[server]\nport = 0\npublic_url = "http://127.0.0.1:{port}"\n{KEYS}'
    gateway = make(config).start("--port", str(own_port))
    with nginx(tmp_path / "nginx", SERVERS[request.param], port=port, upstream_port=own_port):
        assert gateway.port == port
        yield gateway


async def asked(url: str, headers: dict[str, str], **more: str) -> httpx.Response:
    async with http_client(headers={"A2A-Version": "1.0", **headers, **more}) as http:
        return await http.post(url, json=envelope("SendMessage", message_params("say hi")))


async def test_with_keys_a_caller_through_the_proxy_needs_one(proxied: Gateway) -> None:
    refused = await asked(proxied.jsonrpc_url, {})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == 'Bearer realm="trunkline"'
    # Headers that the caller makes up open nothing.
    forged = {"Host": "localhost", "X-Forwarded-For": "127.0.0.1"}
    assert (await asked(proxied.jsonrpc_url, forged)).status_code == 401
    answered = await asked(proxied.jsonrpc_url, KEY)
    assert answered.status_code == 200
    assert answered.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_events_come_through_as_they_happen(proxied: Gateway, tmp_path: Path) -> None:
    done = tmp_path / "done"
    body = envelope("SendStreamingMessage", message_params(str(done)))
    url = proxied.agent_url("test/patient")
    async with (
        http_client(headers={"A2A-Version": "1.0", **KEY}) as http,
        http.stream("POST", url, json=body) as response,
    ):
        stream = Stream(response)
        # The agent waits for the file, so this event has come while the stream is open.
        first = await stream.event()
        assert "task" in first.result
        done.touch()
        *_, last = await stream.events()
    assert last.state == "TASK_STATE_COMPLETED"


async def test_cards_name_addresses_that_work_from_outside(proxied: Gateway) -> None:
    async with http_client() as http:
        card = (await http.get(f"{proxied.url}/.well-known/agent-card.json")).json()
    urls = [one["url"] for one in card["supportedInterfaces"]]
    assert urls
    assert all(url.startswith(f"{proxied.url}/") for url in urls)
    async with connect(proxied.url, token=ALICE_KEY) as agent:
        answer = await agent.send("say hi")
    assert isinstance(answer, Task)


def findings(gateway: Gateway) -> list[dict[str, Any]]:
    config = str(gateway.folder / "trunkline.toml")
    command = [sys.executable, "-m", "trunkline", "doctor", "--config", config, "-o", "json"]
    command += ["--data", str(gateway.folder / "other")]
    result = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=True)
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return found


def test_the_doctor_is_content(proxied: Gateway) -> None:
    found = findings(proxied)
    assert [one for one in found if one["level"] != "ok"] == []
    [access] = [one["what"] for one in found if one["part"] == "auth"]
    assert access == "every caller needs an API key (alice, bob)"


async def test_without_keys_only_programs_on_the_machine_get_in(make: Make, tmp_path: Path) -> None:
    gateway, port = make().start(), free_port()
    assert (await asked(gateway.jsonrpc_url, {})).status_code == 200
    with nginx(tmp_path / "nginx", SERVERS["example"], port=port, upstream_port=gateway.port):
        refused = await asked(f"http://127.0.0.1:{port}/a2a/jsonrpc", {"Host": "127.0.0.1"})
    assert refused.status_code == 401
    assert "came through a proxy" in refused.text
