"""docs/guides/backends/openai.md does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.acceptance.conftest import Make
from tests.acceptance.gateway import DEADLINE_S, SOURCE
from tests.acceptance.model_process import model_process

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guides" / "backends" / "openai.md").read_text("utf-8")
CONFIG = (ROOT / "examples" / "openai" / "trunkline.toml").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_example_is_the_one_on_the_page() -> None:
    assert CONFIG.partition("\n\n")[2] == BLOCKS[0][1]


def test_the_example_runs(make: Make) -> None:
    [shown] = [text for language, text in BLOCKS if language == "text"]
    with model_process() as model:
        gateway = make(agents=CONFIG)
        gateway.environment = {"MODEL_URL": f"{model.start().url}/v1"}
        gateway.start()
        run = subprocess.run(
            [sys.executable, "-W", "error", ROOT / "examples" / "openai" / "ask.py", gateway.url],
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    assert (run.stderr, run.stdout) == ("", shown)


def test_every_failure_is_on_the_page() -> None:
    source = (SOURCE / "trunkline" / "backends" / "openai" / "failures.py").read_text("utf-8")
    sentences = re.findall(r'"((?:The|What) [^"]+\.)"', source)
    assert len(sentences) > 12
    page = TEXT.partition("## When it fails")[2]
    missing = [
        sentence
        for sentence in sentences
        if sentence != "The gateway is stopping." and re.sub(r"\{\w+\}", "…", sentence) not in page
    ]
    assert missing == []
