"""The tour of the README, as it is printed there."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

from tests.acceptance.command import Shell
from tests.acceptance.gateway import gateway

README = Path(__file__).parents[2] / "README.md"
ADDRESS = "http://127.0.0.1:8642"


def test_the_tour_of_the_readme(tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", README.read_text(), flags=re.S)
    code = next(body for kind, body in blocks if kind == "python")
    (tmp_path / "trip.py").write_text(code)
    shown_next = [
        (command, shown)
        for (kind, command), (_, shown) in itertools.pairwise(blocks)
        if kind == "sh"
    ]
    asking = [one for one in shown_next if "trunkline send" in one[0]]
    tour = [one for one in shown_next if "curl" in one[0]]
    assert (len(asking), len(tour)) == (2, 3)
    config = '[agents."local/planner"]\nbackend = { kind = "python", target = "trip.py" }\n'
    with gateway(tmp_path, config) as running:
        running.start()
        shell = Shell(tmp_path)
        for command, shown in asking:
            answer = shell.typed(command.replace(ADDRESS, running.url).replace("./", ""))
            assert_shown(answer.replace(running.url, ADDRESS), shown.replace("./", ""))
        # As typed into one terminal: later lines see what earlier ones left.
        lines = "\necho =====\n".join(command.strip() for command, _ in tour)
        answers = subprocess.run(
            ["bash", "-c", lines.replace(ADDRESS, running.url)],
            cwd=tmp_path,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout.split("=====\n")
        for answer, (_, shown) in zip(answers, tour, strict=True):
            assert_shown(answer, shown)


def planner_code() -> str:
    """The agent that the tour is about."""
    code: str = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)[0]
    return code


def assert_shown(answer: str, shown: str) -> None:
    """All that is shown is in the answer, in that order; `…` stands for anything."""
    place = 0
    for piece in re.split(r"…\n?|\n", shown):
        found = answer.find(piece, place)
        assert found >= 0, f"the README shows {piece!r}, which is not in {answer[place:]!r}"
        place = found + len(piece)
