"""`trunkline attach` as its users have it: a process that dials out to relays."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command import Shell
from tests.acceptance.gateway import DEADLINE_S, Gateway
from tests.acceptance.relay_hosts import (
    ALICE_KEY,
    HOST_TOKEN,
    RELAY,
    caller,
    relay_process,
    request,
    until,
)

from trunkline.cli.exit_codes import Exit

HEAD = "Content-Type: application/json\r\nA2A-Version: 1.0\r\n"
COMPLETED, SUBMITTED = "TASK_STATE_COMPLETED", "TASK_STATE_SUBMITTED"


def send(number: int = 0) -> bytes:
    message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    body = json.dumps({"message": message}).encode()
    more = f"{HEAD}Idempotency-Key: key-{number}\r\n"
    return request(body, below="/message:send", more=more if number else HEAD)


def state_of(answer: bytes) -> str:
    state: str = json.loads(answer)["task"]["status"]["state"]
    return state


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with relay_process(tmp_path_factory.mktemp("relay")) as relay:
        yield relay


def flags(*relays: Gateway, agent: str = "helper") -> list[str]:
    urls = [word for relay in relays for word in ("--relay", relay.url)]
    return ["attach", *urls, "--tenant", "acme", "--agent", agent]


class Attached:
    """The process, by the lines of JSON that it writes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    def until(self, state: str, **values: object) -> dict[str, Any]:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
            if {"state": state, **values}.items() <= self.lines[-1].items():
                return self.lines[-1]
        assert self.process.stderr is not None
        raise AssertionError(f"{self.lines}\n{self.process.stderr.read()}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(DEADLINE_S)


@contextmanager
def attached(shell: Shell, arguments: list[str]) -> Iterator[Attached]:
    shell.environment.setdefault("TRUNKLINE_RELAY_TOKEN", HOST_TOKEN)
    with shell.started(*arguments, "-o", "json") as process:
        yield Attached(process)


def call(relay: Gateway) -> str:
    """The state of the task of a message."""

    async def once() -> str:
        async with caller(relay.port) as client:
            status, answer = await client.call(send())
            assert status == 200, answer
            return state_of(answer)

    return asyncio.run(once())


def test_an_agent_is_attached_called_and_stopped(relay: Gateway, shell: Shell) -> None:
    with attached(shell, flags(relay)) as gateway:
        assert gateway.until("started")["urls"] == [f"{relay.url}/t/acme/a2a/helper"]
        gateway.until("attached", agents=["acme/helper"])
        assert call(relay) == COMPLETED
        assert listening(gateway.process.pid) == []
        assert gateway.stop() == Exit.DONE
        gateway.until("stopped")
    # The next message waits at the relay, and the task of the first one is kept.
    assert call(relay) == SUBMITTED
    assert (shell.folder / "data" / "trunkline" / "trunkline.db").exists()


# The relay mode of OpenClaw's integration design, as it stands there.
PASTED = """
a2a:
  server:
    enabled: true
    mode: relay
    relay:
      url: wss://a2a-relay-prod-442090395636.us-central1.run.app/agent
      tenant: personal
      agentId: zaf
      token: ${A2A_RELAY_TOKEN}
"""


def test_the_relay_mode_of_an_openclaw_configuration_works_as_pasted(
    tmp_path: Path, shell: Shell
) -> None:
    """Only the address of the relay is another one."""
    there = "wss://a2a-relay-prod-442090395636.us-central1.run.app"
    config = RELAY.replace("acme/*", "personal/zaf")
    with relay_process(tmp_path, config) as own:
        pasted = PASTED.replace(there, f"ws://127.0.0.1:{own.port}")
        (tmp_path / "openclaw.json").write_text(pasted)
        shell.environment |= {"A2A_RELAY_TOKEN": HOST_TOKEN, "HOME": str(tmp_path)}
        arguments = ("serve", "--openclaw-config", "openclaw.json", "--port", "0")
        with shell.started(*arguments) as process:
            began = time.monotonic()
            send = ("send", f"{own.url}/t/personal/a2a/zaf", "hi", "--token", ALICE_KEY)
            while (ended := shell.run(*send)).code:
                assert process.poll() is None
                assert time.monotonic() - began < DEADLINE_S, ended.err
            assert ended.out == "hi\n"
            process.terminate()
            assert process.wait(DEADLINE_S) == 0


def listening(pid: int) -> list[int]:
    """The TCP ports that the process listens on."""
    own = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    rows = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    return [
        int(fields[1].rpartition(":")[2], 16)
        for fields in map(str.split, rows)
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own
    ]


@pytest.mark.full
def test_it_listens_on_loopback_where_that_is_asked_for(relay: Gateway, shell: Shell) -> None:
    with attached(shell, [*flags(relay), "--port", "0"]) as gateway:
        gateway.until("attached")
        (port,) = listening(gateway.process.pid)

        async def ready() -> tuple[int, bytes]:
            async with caller(port) as client:
                return await client.call(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

        assert asyncio.run(ready())[0] == 200
        assert gateway.stop() == Exit.DONE


def test_a_relay_that_restarts_has_the_agent_again(tmp_path: Path, shell: Shell) -> None:
    with relay_process(tmp_path) as own, attached(shell, flags(own)) as gateway:
        gateway.until("attached")
        own.kill()
        reason = gateway.until("waiting")["reason"]
        assert reason in ("the connection was lost", "cannot connect: connection refused")
        own.start("--port", str(own.port))
        gateway.until("attached")
        assert call(own) == COMPLETED
        assert gateway.stop() == Exit.DONE


def test_a_token_that_is_refused_ends_it_with_a_remedy(relay: Gateway, shell: Shell) -> None:
    ended = shell.run(*flags(relay), TRUNKLINE_RELAY_TOKEN="not-a-token-of-this-relay")
    assert ended.code == Exit.NO_ACCESS
    assert "does not know the token. Check that the token is for this relay" in ended.err
    assert "not-a-token-of-this-relay" not in ended.out + ended.err


@pytest.mark.full
def test_a_token_that_may_not_attach_ends_it_as_well(relay: Gateway, shell: Shell) -> None:
    ended = shell.run(*flags(relay), TRUNKLINE_RELAY_TOKEN=ALICE_KEY)
    assert ended.code == Exit.NO_ACCESS
    assert "needs attach" in ended.err


@pytest.mark.full
def test_another_gateway_that_attaches_the_agent_ends_it(relay: Gateway, shell: Shell) -> None:
    with attached(shell, flags(relay)) as first:
        first.until("attached")
        with attached(shell, [*flags(relay), "--db", "memory:"]) as second:
            second.until("attached")
            first.until("refused")
            assert first.process.wait(DEADLINE_S) == Exit.REPLACED
            assert second.stop() == Exit.DONE


def test_one_line_on_a_terminal_shows_how_it_is(relay: Gateway, shell: Shell) -> None:
    shell.environment["TRUNKLINE_RELAY_TOKEN"] = HOST_TOKEN
    with shell.on_terminal(*flags(relay), COLUMNS="200") as terminal:
        terminal.until("attached to 127.0.0.1")
        assert call(relay) == COMPLETED
        terminal.until(" · 1 request · round trip ")
        terminal.interrupt()
        assert terminal.end() == Exit.DONE
    # The line is gone in the end, and what is there to copy stays.
    assert terminal.shown.endswith(b"\r\x1b[2K")


def test_doctor_shows_the_token_to_the_relay(relay: Gateway, shell: Shell) -> None:
    (shell.folder / "host.toml").write_text(
        f"""
        server.port = 0
        [relay]
        url = "ws://127.0.0.1:{relay.port}/agent"
        standby = ["ws://127.0.0.1:1/agent"]
        tenant = "acme"
        agent_id = "helper"
        token = "${{TOKEN}}"
        [agents."me/echo"]
        name = "Echo"
        backend = {{ kind = "echo" }}
        """
    )
    lines = shell.run("doctor", "--config", "host.toml", TOKEN=HOST_TOKEN).out.splitlines()
    assert f"✓ relay: 127.0.0.1:{relay.port} takes the token" in lines
    assert any(line.startswith("! relay: 127.0.0.1:1: cannot connect") for line in lines)
    ended = shell.run("doctor", "--config", "host.toml", TOKEN="another-token")
    assert ended.code == Exit.FAILED
    assert f"✗ relay: 127.0.0.1:{relay.port}: the relay does not know the token." in ended.out


@pytest.mark.full
def test_a_python_file_is_attached_as_it_is_served(relay: Gateway, shell: Shell) -> None:
    (shell.folder / "own.py").write_text(
        'from trunkline import agent\n\n\n@agent(name="Shout")\nasync def shout(turn):\n'
        '    """Answers louder."""\n    yield turn.text.upper()\n'
    )
    arguments = flags(relay)
    with attached(shell, [arguments[0], "own.py", *arguments[1:]]) as gateway:
        gateway.until("attached")
        answer = shell.run("send", f"{relay.url}/t/acme/a2a/helper", "hello", "--token", ALICE_KEY)
        assert answer.out == "HELLO\n"
        assert gateway.stop() == Exit.DONE


def test_one_of_two_relays_stops_under_load_and_no_request_fails(
    tmp_path: Path, shell: Shell
) -> None:
    """A caller asks one relay, and the other one where that has stopped or answers with 503. A
    message may be repeated, because it has a key."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with (
        relay_process(folders[0]) as one,
        relay_process(folders[1]) as two,
        attached(shell, flags(one, two)) as gateway,
    ):
        gateway.until("attached", relay=f"127.0.0.1:{one.port}")
        load = Load(one.port, two.port)
        asyncio.run(load.run(lambda: one.terminate()))
        gateway.until("attached", relay=f"127.0.0.1:{two.port}")
        assert one.wait() == 0
        assert gateway.stop() == Exit.DONE
    print(f"{load.served} served, by {load.by}; the longest took {load.longest_s:.3f} s")
    assert load.failed == []
    assert min(load.by.values()) > 20


class Load:
    def __init__(self, *ports: int) -> None:
        self.by = dict.fromkeys(ports, 0)
        self.failed: list[object] = []
        self.longest_s = 0.0
        self._sent = 0

    @property
    def served(self) -> int:
        return sum(self.by.values())

    async def run(self, stop: Any) -> None:
        is_over = asyncio.Event()
        callers = [asyncio.ensure_future(self._keep_calling(is_over)) for _ in range(4)]
        await until(lambda: self.served >= 50)
        stop()
        second = [*self.by][1]
        await until(lambda: self.by[second] >= 50 or bool(self.failed))
        is_over.set()
        await asyncio.gather(*callers)

    async def _keep_calling(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            began = time.monotonic()
            self._sent += 1
            message = send(self._sent)
            outcomes = []
            for port in self.by:
                outcomes.append(await self._call(port, message))
                if not outcomes[-1]:
                    break
            else:
                self.failed.append(outcomes)
            self.longest_s = max(self.longest_s, time.monotonic() - began)

    async def _call(self, port: int, message: bytes) -> str:
        """Why the agent has not answered through this relay; empty if it has."""
        try:
            async with caller(port) as client:
                status, body = await client.call(message)
        except (OSError, asyncio.IncompleteReadError) as error:
            return repr(error)
        if status == 200 and state_of(body) == COMPLETED:
            self.by[port] += 1
            return ""
        if status != 503:
            # No relay may keep a message that the agent could have had at the other one.
            self.failed.append((port, status, body))
        return f"{status}"
