"""docs/guides/backends/command.md and acp.md do what they say."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.gateway import DEADLINE_S, SOURCE

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "guides" / "backends"
PAGES = {name: (DOCS / f"{name}.md").read_text("utf-8") for name in ("command", "acp")}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNS = [
    (first[1], then[1])
    for text in PAGES.values()
    for first, then in itertools.pairwise(BLOCK.findall(text))
    if (first[0], then[0]) == ("sh", "text")
]


@pytest.mark.parametrize("name", PAGES)
def test_the_example_is_the_one_on_the_page(name: str) -> None:
    config = (ROOT / "examples" / name / "trunkline.toml").read_text("utf-8")
    assert BLOCK.findall(PAGES[name])[0] == ("toml", config.partition("\n\n")[2])


@pytest.mark.parametrize(("command", "shown"), RUNS)
def test_the_example_runs(command: str, shown: str, tmp_path: Path) -> None:
    program, *words = shlex.split(command)
    assert program == "trunkline"
    run = subprocess.run(
        [sys.executable, "-m", "trunkline", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(SOURCE), "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (run.returncode, run.stdout) == (0, shown), run.stderr


def test_there_are_examples() -> None:
    assert len(RUNS) == 3


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("command", "programs/failures.py"),
        ("command", "command/claude.py"),
        ("acp", "acp/backend.py"),
    ],
)
def test_every_failure_is_on_the_page(name: str, module: str) -> None:
    source = (SOURCE / "trunkline" / "backends" / module).read_text("utf-8")
    sentences = re.findall(r'f?"(The agent[^"]*?[.:,] ?)"', source)
    assert sentences
    page = PAGES[name].partition("## When it fails")[2]
    # As far as a sentence is the same for all.
    begins = [re.split(r"\{|[.:,] |[.:,]$", sentence)[0].rstrip() for sentence in sentences]
    assert [words for words in begins if words not in page] == []
