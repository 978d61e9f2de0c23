"""Write the state diagrams in docs/reference/tasks.md from the tables of tasks and of runs."""

import re
from collections.abc import Iterable
from pathlib import Path

from trunkline.engine import run_states, transitions
from trunkline.engine.run_states import RunState
from trunkline.model.values import TERMINAL, TaskState

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "tasks.md"
BEGIN = "<!-- Written by tools/gen_state_diagram.py from src/trunkline/engine/transitions.py. -->"
END = "<!-- End of the state diagram. -->"
RUNS_BEGIN = (
    "<!-- Written by tools/gen_state_diagram.py from src/trunkline/engine/run_states.py. -->"
)
RUNS_END = "<!-- End of the diagram of runs. -->"


def diagram() -> str:
    """The states of a task."""
    rows = [
        (before.name, step.value, after.name) for (before, step), after in transitions.TABLE.items()
    ]
    return _mermaid("SUBMITTED", rows, [state.name for state in TaskState if state in TERMINAL])


def run_diagram() -> str:
    """The states of a run, without the events that leave a run as it is."""
    rows = [
        (before.name, event.value, after.name)
        for (before, event), (after, effects) in run_states.TABLE.items()
        if after is not before or effects
    ]
    return _mermaid(RunState.QUEUED.name, rows, [RunState.RELEASED.name])


def _mermaid(first: str, rows: Iterable[tuple[str, str, str]], ends: Iterable[str]) -> str:
    """A mermaid block; steps that lead from and to the same states share an arrow."""
    steps: dict[tuple[str, str], list[str]] = {}
    for before, step, after in rows:
        steps.setdefault((before, after), []).append(step)
    arrows = [
        f"{before} --> {after}: {', '.join(names)}" for (before, after), names in steps.items()
    ]
    lines = ["stateDiagram-v2", f"[*] --> {first}", *arrows, *[f"{end} --> [*]" for end in ends]]
    return "```mermaid\n" + "\n    ".join(lines) + "\n```"


def with_diagram(page: str) -> str:
    for begin, drawn, end in ((BEGIN, diagram(), END), (RUNS_BEGIN, run_diagram(), RUNS_END)):
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        page = pattern.sub(f"{begin}\n{drawn}\n{end}", page)
    return page


def main() -> None:
    FILE.write_text(with_diagram(FILE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
