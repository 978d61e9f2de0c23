import re
from pathlib import Path
from typing import Any

from tests.docs.transcripts import examples_in
from tools.gen_state_diagram import (
    BEGIN,
    END,
    FILE,
    RUNS_BEGIN,
    RUNS_END,
    diagram,
    run_diagram,
    with_diagram,
)

from trunkline.engine import run_states
from trunkline.engine.transitions import TABLE

SOURCE = Path(__file__).parents[2] / "src" / "trunkline"
TASKS = FILE.read_text("utf-8")
PAGE = (FILE.parent / "architecture.md").read_text("utf-8")


def test_the_state_diagram_is_up_to_date() -> None:
    assert BEGIN in TASKS
    assert END in TASKS
    assert RUNS_BEGIN in TASKS
    assert RUNS_END in TASKS
    assert with_diagram(TASKS) == TASKS, "the diagram is stale: run tools/gen_state_diagram.py"


def test_the_diagram_has_every_transition() -> None:
    assert _drawn(diagram()) == {
        (before.name, step.value, after.name) for (before, step), after in TABLE.items()
    }


def test_the_diagram_of_runs_has_every_change_and_every_effect() -> None:
    assert _drawn(run_diagram()) == {
        (before.name, event.value, after.name)
        for (before, event), (after, effects) in run_states.TABLE.items()
        if before is not after or effects
    }


def _drawn(picture: str) -> set[tuple[str, str, str]]:
    return {
        (before, step, after)
        for before, after, steps in re.findall(r"(\w+) --> (\w+): (.+)", picture)
        for step in steps.split(", ")
    }


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([a-z0-9_]+/[a-z0-9_/]*(?:\.py)?)`", PAGE))
    packages = {name for name in named if (SOURCE / name.split("/")[0]).is_dir()}
    assert len(packages) > 20
    assert [name for name in packages if not (SOURCE / name).exists()] == []


def test_every_package_is_in_the_table_of_layers() -> None:
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert packages <= named


async def test_the_example_of_a_record_kind_works() -> None:
    (example,) = examples_in(PAGE)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example.code, "architecture.md", "exec"), names)
    await names["test_a_reminder_is_said_when_its_time_has_come"]()
