"""docs/guides/trying.md shows what really happens."""

import itertools
import re
from pathlib import Path

from tests.acceptance.command import Shell
from tests.acceptance.remote import free_port
from tests.acceptance.test_readme import assert_shown, planner_code

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "trying.md"


def test_the_example_is_the_one_of_the_readme() -> None:
    example = Path(__file__).parents[2] / "examples" / "python" / "trip.py"
    assert example.read_text("utf-8").partition('"""\n\n')[2] == planner_code()


def test_the_page(tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    [config] = [body for kind, body in blocks if kind == "toml"]
    shell = Shell(tmp_path)
    shell.environment |= {"NO_COLOR": "1", "MY_KEY": "0123456789abcdef0123"}
    (tmp_path / "trip.py").write_text(planner_code())
    # The usual port may be taken where the tests run.
    port = str(free_port())
    config = config.replace("[server]\n", f"[server]\nport = {port}\n")
    (tmp_path / "check.toml").write_text(config)
    shown = 0
    for (kind, lines), (next_kind, expected) in itertools.pairwise(blocks):
        if (kind, next_kind) == ("sh", "text"):
            is_crash = "ValueError" in expected
            answer = shell.typed(lines, expects_traceback=is_crash).replace(port, "8642")
            assert_shown(answer, expected)
            shown += 1
    assert shown == 3
    assert not (tmp_path / "tasks.db").exists()
