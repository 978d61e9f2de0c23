"""docs/guides/calling.md shows what a terminal shows, with the agent of the README."""

import itertools
import re
from pathlib import Path

from tests.acceptance.command import Shell
from tests.acceptance.gateway import gateway
from tests.acceptance.test_readme import ADDRESS, assert_shown, planner_code

from trunkline.cli.exit_codes import Exit

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "calling.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page(tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.S)
    [targets] = [body for kind, body in blocks if kind == "toml"]
    shell = Shell(tmp_path)
    shell.environment["NO_COLOR"] = "1"
    (tmp_path / "trip.py").write_text(planner_code())
    config = '[agents."local/planner"]\nbackend = { kind = "python", target = "trip.py" }\n'
    shown = 0
    with gateway(tmp_path, config) as running:
        running.start()
        (tmp_path / "targets.toml").write_text(targets.replace(ADDRESS, running.url))
        for (kind, lines), (next_kind, expected) in itertools.pairwise(blocks):
            if (kind, next_kind) != ("sh", "text"):
                continue
            shell.environment["TASK"] = _last_task(tmp_path)
            answer = shell.typed(lines.replace(ADDRESS, running.url))
            assert_shown(answer.replace(running.url, ADDRESS), expected)
            shown += 1
    assert shown == 10


def _last_task(folder: Path) -> str:
    file = folder / "data" / "trunkline" / "conversations.json"
    return re.findall(r'"task_id":"([^"]+)"', file.read_text())[-1] if file.exists() else ""


def test_every_exit_code_is_on_the_page() -> None:
    table = re.findall(r"^\| ([\d, ]+) \| ", TEXT, flags=re.MULTILINE)
    assert [int(code) for row in table for code in row.split(",")] == [*map(int, Exit)]
