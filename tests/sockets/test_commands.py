"""Commands that call an agent: the requests that they make, and an agent that is not there."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app

run = CliRunner().invoke
URL = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRUNKLINE_CONFIG", "TRUNKLINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_an_agent_that_is_not_there_is_one_line() -> None:
    result = run(app, ["send", URL, "x"])
    assert result.exit_code == 9
    assert result.stderr == (
        f"error: {URL}: cannot connect to 127.0.0.1:1: Connection refused. Is it running? Check "
        "the URL and the network.\n"
    )
    shown = run(app, ["--debug", "send", URL, "x"])
    assert "Traceback" in shown.stderr


class Peer(ThreadingHTTPServer):
    """An agent that forbids caching of its card."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []

    def url(self, path: str = "", *, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_address[1]}{path}"


class Answers(BaseHTTPRequestHandler):
    server: Peer

    def do_GET(self) -> None:
        self.server.asked.append(f"GET {self.path}")
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {
            "name": "Peer",
            "supportedInterfaces": [interface | {"url": self.server.url("/rpc")}],
            "capabilities": {"streaming": False},
        }
        is_card = self.path == "/.well-known/agent-card.json"
        self.answer(200 if is_card else 404, card if is_card else {"detail": "no"})

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(call["method"])
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
        results = {"SendMessage": {"task": task}, "ListTasks": {"tasks": [task]}}
        result = results.get(call["method"], task)
        self.answer(200, {"jsonrpc": "2.0", "id": call["id"], "result": result})

    def answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        headers = {"content-type": "application/json", "cache-control": "no-store"}
        for name, value in (headers | {"content-length": str(len(text))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


CARD = "GET /.well-known/agent-card.json"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["card"], [CARD]),
        (["status", "t"], [CARD, "GetTask"]),
        (["list"], [CARD, "ListTasks"]),
        (["cancel", "t"], [CARD, "CancelTask"]),
        (["watch", "t"], [CARD, "GetTask"]),
        (["send", "x"], [CARD, "SendMessage"]),
        (["stream", "x"], [CARD, "SendMessage"]),
    ],
)
def test_a_command_fetches_the_card_once(peer: Peer, words: list[str], asked: list[str]) -> None:
    name, *rest = words
    assert run(app, [name, peer.url(), *rest]).exit_code in (0, 5)
    assert peer.asked == asked


# 0.0.0.0 leads to this machine too, and is called like a public address.
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_status_of_a_task_is_found_by_the_url_of_an_interface(peer: Peer, host: str) -> None:
    found = run(app, ["status", peer.url("/rpc", host=host), "t"])
    assert found.exit_code == 0, found.stderr
    assert "State      completed" in found.stdout


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_status_of_a_task_where_there_is_no_card(peer: Peer, host: str) -> None:
    url = peer.url("/other/agent", host=host)
    result = run(app, ["status", url, "t"])
    assert result.exit_code == 12
    assert result.stderr == (
        f"error: there is no agent card at {url}/.well-known/agent-card.json (status 404: no). "
        "Give the base URL of an A2A agent, of its card or of one of its interfaces.\n"
    )
