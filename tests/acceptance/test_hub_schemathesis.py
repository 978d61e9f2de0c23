"""schemathesis over the OpenAPI document of a hub: requests that the document allows and requests
that it forbids, from an operator, from a caller with few rights, and from one without a credential.

A finding is a 5xx, an answer that the document does not describe, a wrong request that was taken,
or a route that took a caller without a credential.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.raw import envelope, message_params
from tests.programs.backends import FOLDER

BOSS = "boss-has-a-long-enough-key"
LIMITED = "limited-has-a-long-enough-key"
CONFIG = f"""
[hub]

[auth.keys.boss]
key = "{BOSS}"

[auth.keys.limited]
key = "{LIMITED}"
grants = {{ "own/echo" = ["SendMessage"] }}

[agents."own/echo"]
name = "Echo"
backend = {{ kind = "echo" }}

[agents."own/holder"]
name = "Has a turn that lasts"
[agents."own/holder".backend]
kind = "command"
command = ["{sys.executable}", "{FOLDER / "uses_tools.py"}"]
tools = ["agent_call", "agent_poll", "agent_call_batch", "debate_call"]
"""
# A request may fit the types and still be refused, for example for the token of another page. NUL
# characters are refused everywhere.
OPTIONS = (
    *("--exclude-checks", "positive_data_acceptance", "--generation-allow-x00", "false"),
    # It has no end.
    *("--exclude-path", "/api/v1/live"),
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    made = Gateway(tmp_path_factory.mktemp("schemathesis"), CONFIG).start()
    yield made
    made.stop()


def findings(
    gateway: Gateway, folder: Path, key: str, *options: str, seconds: int
) -> tuple[int, list[str]]:
    """The number of requests that schemathesis made, and what it found."""
    # Read apart, because the token of a program opens nothing but its tools.
    document = folder / "openapi.json"
    document.write_text(httpx.get(f"{gateway.url}/api/v1/openapi.json").text)
    credential = ["-H", f"Authorization: Bearer {key}"] if key else []
    report = folder / "report.json"
    command: list[str | Path] = [
        Path(sys.executable).with_name("schemathesis"),
        "run",
        document,
        *("--url", gateway.url),
        *("--report", "json", "--report-json-path", report),
        # One worker, because Python 3.11 may fail to compile source in two threads at once.
        *("--seed", "1", "--continue-on-failure", "--no-color", "--workers", "1"),
        *credential,
        *OPTIONS,
        *options,
    ]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    assert report.exists(), run.stdout + run.stderr
    told: dict[str, Any] = json.loads(report.read_text())
    found = [json.dumps(each)[:2000] for each in (*told["failures"], *told["errors"])]
    if run.returncode and not found:
        found = [run.stdout]
    return told["test_cases"]["generated"], found


def check_still_serves(gateway: Gateway) -> None:
    assert gateway.process.poll() is None
    assert "a request to the hub failed" not in gateway.stderr
    assert "request failed" not in gateway.stderr
    assert "Traceback" not in gateway.stderr


KEYS = pytest.mark.parametrize("key", [BOSS, LIMITED, ""], ids=["operator", "limited", "anonymous"])


@KEYS
def test_no_request_finds_a_fault(gateway: Gateway, tmp_path: Path, key: str) -> None:
    options = ("--phases", "examples,fuzzing", "--max-examples", "4")
    number, found = findings(gateway, tmp_path, key, *options, seconds=110)
    assert found == []
    assert number > 10
    check_still_serves(gateway)


async def test_no_request_of_a_program_finds_a_fault(gateway: Gateway, tmp_path: Path) -> None:
    """With the token of a turn under way, on the routes of tools."""
    file = tmp_path / "token"
    url = gateway.agent_url("own/holder")
    text = json.dumps({"keep": str(file), "hold": True})
    params = message_params(text) | {"configuration": {"returnImmediately": True}}
    headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {BOSS}"}
    async with http_client(headers=headers) as http:
        await http.post(url, json=envelope("SendMessage", params))

    async def is_kept() -> bool:
        return file.exists() and len(file.read_text().split()) == 2

    await eventually(is_kept)
    token = file.read_text().split()[1]
    options = ("--phases", "examples,fuzzing", "--max-examples", "10")
    only = ("--include-path-regex", "/api/v1/tools/")
    try:
        number, found = findings(gateway, tmp_path, token, *options, *only, seconds=110)
    finally:
        file.unlink()
    assert found == []
    assert number > 10
    check_still_serves(gateway)


@KEYS
@pytest.mark.full
@pytest.mark.timeout(1800)
def test_no_request_of_many_finds_a_fault(gateway: Gateway, tmp_path: Path, key: str) -> None:
    options = ("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "100")
    number, found = findings(gateway, tmp_path, key, *options, seconds=1700)
    assert found == []
    assert number > 500
    check_still_serves(gateway)
