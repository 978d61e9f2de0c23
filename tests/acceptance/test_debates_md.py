"""docs/guides/debates.md shows what its example does."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

from tests.acceptance.command import Shell
from tests.acceptance.gateway import gateway
from tests.acceptance.test_readme import ADDRESS, assert_shown

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "debate" / "team.py"
PAGE = (ROOT / "docs" / "guides" / "debates.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.M | re.S)
SLUGS = ("board", "planner", "sceptic", "judge")


def test_the_code_is_that_of_the_example() -> None:
    (code,) = [body for kind, body in BLOCKS if kind == "python"]
    assert EXAMPLE.read_text("utf-8").endswith(f"\n\n{code}")


def test_the_example_does_what_the_page_shows(tmp_path: Path) -> None:
    shown = {
        command: output
        for (kind, command), (_, output) in itertools.pairwise(BLOCKS)
        if kind == "sh"
    }
    config = "".join(
        f'[agents."local/{slug}"]\ndefault = {str(slug == "board").lower()}\n'
        f'backend = {{ kind = "python", target = "{EXAMPLE}:{slug}" }}\n'
        for slug in SLUGS
    )
    (send,) = [command for command in shown if "trunkline send" in command]
    with gateway(tmp_path, config) as running:
        running.start()
        answer = Shell(tmp_path).typed(send.replace(ADDRESS, running.url).replace("./", ""))
    assert_shown(answer, shown[send])
    saved = json.loads((tmp_path / "debate.json").read_text("utf-8"))
    assert without_ids(saved) == without_ids(json.loads(shown["cat debate.json\n"]))


def without_ids(result: dict[str, Any]) -> dict[str, Any]:
    return result | {"taskId": "…", "correlationId": "…"}
