"""Ways to write the address of an agent, and what happens when the one on its card is wrong."""

import json
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command import Shell
from tests.acceptance.conftest import ALICE_KEY
from tests.acceptance.gateway import DEADLINE_S, Gateway, OpenClawGateway, gateway

# RFC 2606: this name is never in the DNS.
PUBLIC = "https://agents.invalid"
AGENT = '[agents."me/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'
KEYS = '[auth.keys.me]\nkey = "${MY_OWN_KEY}"\n'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "/a2a/jsonrpc",
        "/a2a/rest",
        "/a2a/rest/message:send",
        "/.well-known/agent-card.json",
        "/api/a2a/v1/agents/test/scripted",
    ],
)
def test_the_urls_that_a_gateway_prints_can_be_called(
    shell: Shell, shared: Gateway, path: str
) -> None:
    ended = shell.run("send", shared.url + path, "say hello")
    assert (ended.code, ended.out) == (0, "hello\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
def test_a_host_and_a_port_are_enough(shell: Shell, shared: Gateway, host: str) -> None:
    ended = shell.run("send", f"{host}:{shared.port}", "say hello")
    assert (ended.code, ended.out) == (0, "hello\n")


def test_the_binding_of_the_url_is_used(shell: Shell, shared: Gateway) -> None:
    asked = shell.run("send", f"{shared.url}/a2a/rest", "say x", "--protocol", "jsonrpc")
    assert asked.code == 12
    assert "the agent offers HTTP+JSON 1.0" in asked.err


def test_a_path_that_is_no_interface_is_no_agent(shell: Shell, shared: Gateway) -> None:
    ended = shell.run("send", f"{shared.url}/a2a/nothing", "say x")
    assert ended.code == 12
    assert ended.err.startswith(
        f"error: there is no agent card at {shared.url}/a2a/nothing/.well-known/agent-card.json"
    )


def test_a_task_is_found_under_every_spelling_of_the_agent(shell: Shell, shared: Gateway) -> None:
    sent = shell.run("send", f"localhost:{shared.port}", "ask more?")
    assert sent.code == 6
    for spelled in (shared.url, f"{shared.url}/a2a/jsonrpc", f":{shared.port}"):
        assert "State      input-required" in shell.run("status", spelled).out
    answered = shell.run("send", f"{shared.url}/a2a/rest", "--continue", "say done")
    assert (answered.code, answered.out) == (0, "done\n")
    canceled = shell.run("cancel", shared.url)
    assert canceled.code == 2
    assert "TASK is missing. For the last one: trunkline cancel" in canceled.err


def test_without_any_task_of_the_agent_the_remedy_is_named(shell: Shell, shared: Gateway) -> None:
    for command in ("status", "watch"):
        ended = shell.run(command, shared.url)
        assert ended.code == 2
        assert ended.err == (
            f"error: no earlier task with {shared.url} is known. Name one of: "
            f"trunkline list {shared.url}\n"
        )
    ended = shell.run("cancel", shared.url)
    assert ended.code == 2
    assert ended.err == f"error: TASK is missing. Find it: trunkline list {shared.url}\n"


@pytest.mark.parametrize("public_url", [PUBLIC, f"{PUBLIC}/below/a/path"])
@pytest.mark.parametrize("is_default", [True, False], ids=["default", "not default"])
def test_the_lines_to_try_work_on_this_machine(
    shell: Shell, tmp_path: Path, public_url: str, is_default: bool
) -> None:
    config = f'[server]\npublic_url = "{public_url}"\n{KEYS}{AGENT}'
    config += "" if is_default else AGENT.replace("me/echo", "me/other")
    with gateway(tmp_path, config) as running:
        running.environment = {"MY_OWN_KEY": ALICE_KEY}
        running.start()
        assert f"Gateway   {public_url}\n" in running.stdout
        for line in tried(running):
            assert "hello" in in_shell(shell, line, MY_OWN_KEY=ALICE_KEY), line
        url = f"http://127.0.0.1:{port_of(running)}"
        if is_default and public_url == PUBLIC:
            asked = shell.run("send", url, "hello", "--token", ALICE_KEY)
            assert (asked.code, asked.out) == (0, "hello\n")


def test_an_openclaw_account_with_a_public_url_can_be_tried(shell: Shell, tmp_path: Path) -> None:
    account = {"label": "Claw", "publicBaseUrl": PUBLIC, "skills": [{"id": "a", "name": "A"}]}
    config = json.dumps({"channels": {"a2a": {"accounts": {"default": account}}}})
    running = OpenClawGateway(tmp_path, config)
    try:
        running.start()
        for line in tried(running):
            assert "hello" in in_shell(shell, line), line
        asked = shell.run("send", running.url, "hello")
        assert (asked.code, asked.out) == (0, "hello\n")
    finally:
        running.clean_up()


def test_a_card_that_names_a_place_where_nobody_is_fails_at_once(shell: Shell) -> None:
    with card_server("http://127.0.0.1:1/a2a/jsonrpc") as url:
        trusted = 'trusted_origins = ["http://127.0.0.1:1"]'
        (shell.folder / "t.toml").write_text(f'[targets.it]\nbase_url = "{url}"\n{trusted}\n')
        ended = shell.run("send", "it", "hello", "--config", "t.toml")
        assert ended.code == 9
        assert ended.err == (
            f"error: it ({url}/): cannot connect to 127.0.0.1:1: Connection refused. Its card "
            "names the address 127.0.0.1:1. If the agent is yours, check its public_url.\n"
        )


def test_a_card_that_names_an_unknown_host_fails_at_once(shell: Shell) -> None:
    with card_server(f"{PUBLIC}/elsewhere") as url:
        ended = shell.run("send", url, "hello")
        assert ended.code == 9
        assert ended.err.startswith(f"error: {url}: cannot connect to agents.invalid:443: ")
        assert ended.err.endswith(
            "Its card names the address agents.invalid:443. If the agent is yours, check its "
            "public_url.\n"
        )


def tried(running: Gateway) -> list[str]:
    """The lines that the gateway prints to be tried."""
    after = running.stdout.partition("Try it in another terminal:\n")[2]
    return [line.strip() for line in after.splitlines()[:2]]


def port_of(running: Gateway) -> str:
    return tried(running)[0].split("http://127.0.0.1:")[1].partition("/")[0]


def in_shell(shell: Shell, line: str, **environment: str) -> str:
    script = f'trunkline() {{ {shlex.join(shell.command())} "$@"; }}\n{line}'
    done = subprocess.run(
        ["bash", "-c", script],
        env=shell.environment | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    return done.stdout + done.stderr


@contextmanager
def card_server(interface_url: str) -> Iterator[str]:
    """An agent whose card names `interface_url`, and whose sends could be repeated."""
    card: dict[str, Any] = {
        "name": "Misplaced",
        "description": "Not where it says",
        "version": "1",
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
        "supportedInterfaces": [
            {"url": interface_url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(card).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.send_header("trunkline-features", "event-ids, idempotency-key")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
