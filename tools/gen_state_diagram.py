"""Write the state diagram in docs/reference/tasks.md from the table of transitions."""

import re
from pathlib import Path

from trunkline.engine.transitions import TABLE
from trunkline.model.values import TERMINAL, TaskState

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "tasks.md"
BEGIN = "<!-- Written by tools/gen_state_diagram.py from src/trunkline/engine/transitions.py. -->"
END = "<!-- End of the state diagram. -->"


def diagram() -> str:
    """A mermaid block; steps that lead from and to the same states share an arrow."""
    steps: dict[tuple[TaskState, TaskState], list[str]] = {}
    for (before, step), after in TABLE.items():
        steps.setdefault((before, after), []).append(step.value)
    arrows = [
        f"{before.name} --> {after.name}: {', '.join(names)}"
        for (before, after), names in steps.items()
    ]
    ends = [f"{state.name} --> [*]" for state in TaskState if state in TERMINAL]
    lines = ["stateDiagram-v2", "[*] --> SUBMITTED", *arrows, *ends]
    return "```mermaid\n" + "\n    ".join(lines) + "\n```"


def with_diagram(page: str) -> str:
    block = f"{BEGIN}\n{diagram()}\n{END}"
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    return pattern.sub(lambda _: block, page)


def main() -> None:
    FILE.write_text(with_diagram(FILE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
