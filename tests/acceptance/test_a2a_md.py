"""docs/guides/backends/a2a.md does what it says."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.acceptance.conftest import Make
from tests.acceptance.gateway import DEADLINE_S, SOURCE
from tests.acceptance.remote import served

from trunkline.backends.a2a import failures
from trunkline.settings import from_document

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "a2a"
TEXT = (ROOT / "docs" / "guides" / "backends" / "a2a.md").read_text("utf-8")
CONFIG = (EXAMPLE / "trunkline.toml").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_example_is_the_one_on_the_page() -> None:
    assert CONFIG.partition("\n\n")[2] == BLOCKS[0][1]


def test_the_example_runs(make: Make) -> None:
    [shown] = [text for language, text in BLOCKS if language == "text"]
    with served(sys.executable, str(EXAMPLE / "weak_agent.py"), "--port") as url:
        gateway = make(agents=CONFIG)
        gateway.environment = {"UPSTREAM_URL": url}
        gateway.start()
        run = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLE / "ask.py", gateway.url],
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    assert (run.stderr, run.stdout) == ("", shown)


def test_every_text_for_callers_is_on_the_page() -> None:
    texts = [value for name, value in vars(failures).items() if name.isupper() and name[0] != "_"]
    assert len(texts) > 6
    assert [text for text in texts if f"| {text} |" not in TEXT] == []


def test_the_settings_on_the_page_are_sound() -> None:
    environment = {"SUPPORT_TOKEN": "a-token"}
    [agent] = from_document(tomllib.loads(BLOCKS[-1][1]), environment=environment).agents.values()
    assert agent.name == "Support"
