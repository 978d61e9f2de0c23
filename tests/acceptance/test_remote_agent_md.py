"""docs/guides/remote_agent.md does what it says: its scripts, run against a gateway."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.gateway import DEADLINE_S, SOURCE, Gateway
from tests.docs.transcripts import Example, examples_in

from trunkline.remote.tool import Code
from trunkline.remote.tool.schema import ACTIONS

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "remote_agent.md").read_text(
    encoding="utf-8"
)
ADDRESS = "http://127.0.0.1:8642"


@pytest.mark.parametrize("example", examples_in(TEXT), ids=lambda example: f"line-{example.line}")
def test_example(example: Example, shared: Gateway) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", example.code.replace(ADDRESS, shared.url)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.stderr == ""
    assert example.transcript
    assert run.stdout == example.transcript


def test_every_code_and_action_is_documented() -> None:
    assert [code for code in Code if f"`{code}`" not in TEXT] == []
    assert [action for action in ACTIONS if f"| `{action}` |" not in TEXT] == []
