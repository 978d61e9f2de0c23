"""docs/guides/backends/frameworks.md does what it says."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.gateway import DEADLINE_S, SOURCE, Gateway, gateway
from tests.acceptance.model_process import model_process

from trunkline.backends.python import Agent

pytestmark = pytest.mark.frameworks
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "frameworks"
TEXT = (ROOT / "docs" / "guides" / "backends" / "frameworks.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
IMPORTS_S = 110.0
ADDRESS = "http://127.0.0.1:8642"


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("frameworks")
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, folder)
    with (
        pytest.MonkeyPatch.context() as patch,
        model_process() as model,
        gateway(folder, (EXAMPLES / "trunkline.toml").read_text("utf-8")) as made,
    ):
        made.environment = {"MODEL_URL": f"{model.start().url}/v1", "HOME": str(folder)}
        # To import all three takes its time.
        patch.setattr("tests.acceptance.gateway.DEADLINE_S", IMPORTS_S)
        yield made.start()


def test_the_configuration_is_the_one_on_the_page() -> None:
    config = (EXAMPLES / "trunkline.toml").read_text("utf-8")
    assert config.partition("\n\n")[2] == blocks("toml")[0]


def test_the_graph_is_the_one_on_the_page() -> None:
    code = (EXAMPLES / "langgraph_agent.py").read_text("utf-8")
    assert code.partition("\n\n")[2] == blocks("python")[0]


@pytest.mark.parametrize("number", range(len(blocks("console"))))
def test_a_conversation(served: Gateway, number: int) -> None:
    for exchange in blocks("console")[number].split("$ trunkline ")[1:]:
        command, _, shown = exchange.partition("\n")
        words = re.findall(r"\"[^\"]*\"(?=\s|$)|'[^']*'|\S+", command.replace(ADDRESS, served.url))
        run = subprocess.run(
            [sys.executable, "-m", "trunkline", *(word.strip("'\"") for word in words)],
            env=os.environ | {"PYTHONPATH": str(SOURCE), "HOME": str(served.folder)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert run.stdout == shown, run.stderr


def test_dependencies_by_hand() -> None:
    names: dict[str, object] = {}
    exec(compile(blocks("python")[1], "frameworks.md", "exec"), names)
    assert isinstance(names["clerk"], Agent)
