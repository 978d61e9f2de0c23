"""The two configurations of the OpenClaw documents, as they stand there, started and called."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import Gateway, OpenClawGateway, http_client

TASK_FOLDER = "/var/lib/openclaw/a2a-tasks"
INBOUND = """\
{
channels: {
a2a: {
accounts: {
default: {
enabled: true,
label: "Primary A2A Endpoint",
publicBaseUrl: "https://agents.example.com",
defaultAgentId: "main",
agentCardPath: "/.well-known/agent-card.json",
jsonRpcPath: "/a2a/jsonrpc",
maxBodyBytes: 1048576,
defaultInputModes: ["text/plain", "application/json"],
defaultOutputModes: ["text/plain", "application/json"],
agentStyle: "hybrid",
originRoutingPolicy: "suppress-generic-followup",
taskStore: {
kind: "json-file",
path: "/var/lib/openclaw/a2a-tasks"
},
skills: [
{
id: "chat",
name: "Chat"
}
]
}
}
}
}
}"""

DESIGN = """\
# openclaw.json
a2a:
  server:
    enabled: true
    mode: direct
    path: /a2a
    publicUrl: https://my-agent.example.com
"""

AGENT = """
from trunkline import agent

@agent
async def claw(turn):
    return f"claw: {turn.text}"
"""

Start: TypeAlias = Callable[..., Gateway]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway on the document; nothing is written outside of the test's folder."""
    made: list[Gateway] = []

    def start(config: str, *options: str) -> Gateway:
        config = config.replace(TASK_FOLDER, str(tmp_path / "a2a-tasks"))
        made.append(OpenClawGateway(tmp_path, config))
        return made[-1].start(*options)

    yield start
    for gateway in made:
        gateway.clean_up()


async def call(url: str, method: str, params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    async with http_client() as http:
        answer = (await http.post(url, json=body)).json()
    assert answer["id"] == 7
    return answer.get("result", answer)


def message(text: str, **configuration: Any) -> Any:
    parts = [{"kind": "text", "text": text}]
    said = {"kind": "message", "messageId": text, "role": "user", "parts": parts}
    return {"message": said, "configuration": configuration}


async def card_at(gateway: Gateway, path: str) -> Any:
    async with http_client() as http:
        answer = await http.get(f"{gateway.url}{path}")
    assert answer.status_code == 200
    return answer.json()


async def completed(url: str, task_id: str) -> Any:
    found: Any = None

    async def is_done() -> bool:
        nonlocal found
        found = await call(url, "tasks/get", {"id": task_id, "historyLength": 5})
        return bool(found["status"]["state"] == "completed")

    await eventually(is_done)
    return found


async def test_the_configuration_of_the_inbound_plugin_serves(start: Start) -> None:
    gateway = start(INBOUND)
    card = await card_at(gateway, "/.well-known/agent-card.json")
    assert card["name"] == "Primary A2A Endpoint"
    assert card["url"] == "https://agents.example.com/a2a/jsonrpc"
    assert card["protocolVersion"] == "0.3.0"
    assert card["skills"][0]["id"] == "chat"
    assert card["capabilities"]["streaming"] is True
    assert card["capabilities"]["pushNotifications"] is False

    said = await call(gateway.jsonrpc_url, "message/send", message("hello"))
    assert said["kind"] == "message"
    assert said["parts"] == [{"kind": "text", "text": "hello"}]
    task = await call(gateway.jsonrpc_url, "message/send", message("keep me", blocking=False))
    assert task["kind"] == "task"
    before = await completed(gateway.jsonrpc_url, task["id"])

    async with http_client() as http:
        large = b'{"jsonrpc":"2.0"' + b" " * 1048576 + b"}"
        headers = {"content-type": "application/json"}
        assert (
            await http.post(gateway.jsonrpc_url, content=large, headers=headers)
        ).status_code == 413
        assert (await http.get(gateway.jsonrpc_url)).json()["error"]["details"] == {
            "channel": "a2a",
            "accountId": "default",
        }
        assert (await http.get(gateway.agent_url("openclaw/default"))).status_code == 404

    gateway.kill()
    gateway.start()
    assert await completed(gateway.jsonrpc_url, task["id"]) == before
    assert [*(gateway.folder / "a2a-tasks").glob("*.json")]


async def test_the_direct_configuration_of_the_design_serves(start: Start) -> None:
    gateway = start(DESIGN)
    url = f"{gateway.url}/a2a"
    for path in ("/.well-known/agent-card.json", "/a2a/.well-known/agent-card.json"):
        card = await card_at(gateway, path)
        assert card["name"] == "OpenClaw Agent"
        assert card["url"] == "https://my-agent.example.com/a2a"
        assert card["capabilities"]["stateTransitionHistory"] is True
    task = await call(url, "message/send", message("hello"))
    assert task["kind"] == "task"
    before = await completed(url, task["id"])
    assert before["status"]["message"]["parts"][0]["text"] == "hello"
    assert (gateway.folder / ".openclaw" / "data" / "a2a-tasks.db").is_file()

    gateway.kill()
    gateway.start()
    assert await completed(f"{gateway.url}/a2a", task["id"]) == before


async def test_a_python_agent_answers_behind_the_account(start: Start, tmp_path: Path) -> None:
    (tmp_path / "claw.py").write_text(AGENT)
    gateway = start(DESIGN, str(tmp_path / "claw.py"))
    said = await call(f"{gateway.url}/a2a", "message/send", message("hello"))
    assert "claw: hello" in str(said)
    assert "echo agent answers" not in gateway.stdout


async def test_the_screen_says_what_is_open_and_what_is_missing(start: Start) -> None:
    config = INBOUND.replace(
        "default: {", "spare: {agentCardPath: 'c', jsonRpcPath: 'r'}, default: {"
    )
    gateway = start(config.replace('kind: "json-file"', 'kind: "memory"'))
    for part in (
        "openclaw/default  Primary A2A Endpoint",
        "the echo agent answers",
        "anyone who reaches https://agents.example.com may call",
        'account "spare" does not run. publicBaseUrl is required to advertise a valid agent card.',
        "A2A-Version: 0.3",
    ):
        assert part in gateway.stdout
    async with http_client() as http:
        idle = await http.get(f"{gateway.url}/c")
    assert (idle.status_code, idle.json()["error"]["code"]) == (503, "A2A_ACCOUNT_NOT_RUNNING")


def test_an_open_address_needs_a_key(tmp_path: Path) -> None:
    gateway = OpenClawGateway(tmp_path, DESIGN)
    gateway.launch("--host", "0.0.0.0")
    assert gateway.wait() == 2
    assert 'server.host = "0.0.0.0": other machines could call the gateway' in gateway.stderr
