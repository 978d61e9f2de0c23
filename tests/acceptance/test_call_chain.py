"""Agents that call each other in a circle, and agents that may call no others, as processes."""

import sys
from pathlib import Path

import httpx
from tests.acceptance.conftest import Make
from tests.acceptance.remote import free_port

ASKS_ANOTHER = """\
import subprocess, sys
command = [sys.executable, "-m", "trunkline", "send", sys.argv[1], "hello"]
done = subprocess.run(command, capture_output=True, text=True)
print(done.stdout, done.stderr, f"exit code {done.returncode}")
"""


def send(url: str, text: str, **headers: str) -> httpx.Response:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return httpx.post(url, json=body, headers={"A2A-Version": "1.0"} | headers, timeout=60)


def test_a_circle_of_bridges_ends(make: Make) -> None:
    port = free_port()
    agents = f"http://127.0.0.1:{port}/api/a2a/v1/agents"
    gateway = make(
        "".join(
            f'[agents."loop/{name}"]\nname = "{name}"\n'
            f'backend = {{ kind = "a2a", url = "{agents}/loop/{other}" }}\n'
            for name, other in (("a", "b"), ("b", "c"), ("c", "a"))
        )
    )
    gateway.start("--port", str(port))
    answer = send(f"{agents}/loop/a", "hello").json()
    state = answer["result"]["task"]["status"]["state"]
    assert state in ("TASK_STATE_FAILED", "TASK_STATE_REJECTED"), answer
    # Each agent had one turn, and no fourth one began.
    listed = [
        httpx.get(f"{agents}/loop/{name}/tasks", headers={"A2A-Version": "1.0"}).json()
        for name in "abc"
    ]
    assert [page["totalSize"] for page in listed] == [1, 1, 1]


def test_a_chain_is_checked_on_every_binding(make: Make) -> None:
    gateway = make('[agents."acme/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n')
    gateway.start()
    chain = ",".join(f"agent-{number}" for number in range(8))
    refused = send(gateway.jsonrpc_url, "hello", **{"Trunkline-Call-Chain": chain})
    assert "at most 8" in refused.json()["error"]["message"]
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    for header, status in ((chain, 403), ("not a chain", 400), ("agent-1", 200)):
        answer = httpx.post(
            f"{gateway.rest_url}/message:send",
            json=body,
            headers={"A2A-Version": "1.0", "Trunkline-Call-Chain": header},
        )
        assert answer.status_code == status, answer.text


def test_the_programs_of_agents_send_the_chain_along_or_may_call_nobody(
    make: Make, tmp_path: Path
) -> None:
    program = tmp_path / "asks.py"
    program.write_text(ASKS_ANOTHER)
    port = free_port()
    agents = f"http://127.0.0.1:{port}/api/a2a/v1/agents"

    def agent(slug: str, target: str, more: str = "") -> str:
        command = [sys.executable, str(program), f"{agents}/acme/{target}"]
        return (
            f'[agents."acme/{slug}"]\nname = "{slug}"\n{more}'
            f'backend = {{ kind = "command", command = {command}, inherit_env = ["PATH", '
            '"PYTHONPATH", "HOME"] }\n'
        )

    gateway = make(
        agent("asks", "echo")
        + agent("circle", "circle")
        + agent("alone", "echo", "isolated = true\n")
        + '[agents."acme/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'
    )
    gateway.start("--port", str(port))

    def said(slug: str) -> str:
        task = send(f"{agents}/acme/{slug}", "hi").json()["result"]["task"]
        return str(task["artifacts"][0]["parts"][0]["text"])

    assert "exit code 0" in said("asks")
    assert "hello" in said("asks")
    circle = said("circle")
    assert "calls it again" in circle
    alone = said("alone")
    assert "exit code 2" in alone
    assert "isolated" in alone
