"""A stream that is refused, as the users of the last SDKs of 0.3 see it: with its reason."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.gateway import DEADLINE_S, Gateway
from tests.acceptance.test_bridge import SDK03, SDK03_PYTHON
from tests.acceptance.test_js_sdk import FOLDER, INSTALLED


def told(gateway: Gateway, *command: str | Path) -> list[dict[str, dict[str, str]]]:
    """By an agent that streams, and by one that does not."""
    run = subprocess.run(
        [*command, gateway.jsonrpc_url, gateway.agent_url("test/whole")],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    result: list[Any] = json.loads(run.stdout)
    return result


@pytest.mark.skipif(not SDK03_PYTHON.exists(), reason="a2a-sdk 0.3 is missing: ./check peers")
def test_a2a_sdk_of_0_3_shows_the_reason(shared: Gateway) -> None:
    unknown, whole = told(shared, SDK03_PYTHON, SDK03 / "refused_streams.py")
    for refusal in (unknown["stream"], unknown["resubscribe"]):
        assert refusal["name"] == "A2AClientJSONRPCError"
        assert "-32001" in refusal["text"]
        assert "Task not found: made-up" in refusal["text"]
    for refusal in (whole["stream"], whole["resubscribe"]):
        assert refusal["name"] == "A2AClientJSONRPCError"
        assert "-32004" in refusal["text"]


@pytest.mark.skipif(not INSTALLED.exists(), reason="@a2a-js/sdk is missing: ./check javascript")
def test_the_javascript_sdk_of_0_3_shows_the_reason(shared: Gateway) -> None:
    unknown, whole = told(shared, "node", FOLDER / "refused_streams.mjs")
    for refusal in (unknown["stream"], unknown["resubscribe"]):
        assert refusal["name"] == "TaskNotFoundJSONRPCError"
        assert "Task not found: made-up (Code: -32001)" in refusal["text"]
    for refusal in (whole["stream"], whole["resubscribe"]):
        assert refusal["name"] == "UnsupportedOperationJSONRPCError"
        assert "(Code: -32004)" in refusal["text"]
