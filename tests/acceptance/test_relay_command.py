"""`trunkline relay` as a new user has it: the lines that it prints, copied to other terminals."""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from tests.acceptance.command import Shell
from tests.acceptance.gateway import DEADLINE_S


def screen_of(process: "subprocess.Popen[str]") -> str:
    """What it prints until it listens."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or "Stop with Ctrl+C" not in lines[-1]:
        line = process.stdout.readline()
        assert line, "".join(lines)
        lines.append(line)
    return "".join(lines)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_lines_of_the_first_start_work_and_a_denial_ends_them(tmp_path: Path) -> None:
    relay, laptop = Shell(tmp_path), Shell(tmp_path / "laptop")
    laptop.folder.mkdir()
    # Elsewhere it does not show the tokens.
    with relay.on_terminal("relay", "--port", "0", "--log-level", "error") as running:
        running.until("Stop with Ctrl+C")
        screen = running.shown.decode().replace("\r\n", "\n")
        [token] = re.findall(r"export TRUNKLINE_RELAY_TOKEN=(\S+)", screen)
        [attach] = re.findall(r"^  trunkline (attach .*)$", screen, re.MULTILINE)
        [send] = re.findall(r"^  trunkline (send .*)$", screen, re.MULTILINE)
        laptop.environment["TRUNKLINE_RELAY_TOKEN"] = token
        with laptop.started(*shlex.split(attach)) as host:
            screen_of(host)

            def agents() -> list[str]:
                found = json.loads(relay.run("relay", "agents", "-o", "json").out)
                return [each["agent"] for each in found["items"]]

            until(lambda: agents() == ["personal/helper"])
            said = relay.run(*shlex.split(send))
            assert (said.code, said.out) == (0, "hello\n"), said.err
            denied = relay.run("relay", "deny", "--subject", "agent:personal:helper")
            assert denied.code == 0, denied.err
            # It does not try again.
            assert host.wait(DEADLINE_S) != 0
            assert agents() == []
        _flood(shlex.split(send)[1], shlex.split(send)[-1])
        running.interrupt()
        assert running.end() == 0
    # It runs no more, and the store is where the commands look for it.
    listed = json.loads(relay.run("relay", "tenant", "list", "-o", "json").out)
    assert [each["name"] for each in listed["items"]] == ["personal"]


def _flood(url: str, token: str) -> None:
    """Wrong tokens from this address are slowed down, and the right one is not."""
    with httpx.Client(timeout=DEADLINE_S, verify=False) as http:

        def status(credential: str) -> int:
            headers = {"Authorization": f"Bearer {credential}"}
            return http.get(f"{url}/tasks", headers=headers).status_code

        assert "This relay needs a token" in http.get(f"{url}/tasks").text
        found = [status(f"{token[:-6]}{number:06}") for number in range(40)]
        assert found[:30] == [401] * 30
        assert 429 in found[30:]
        # Nothing is attached any more.
        assert status(token) == 503
