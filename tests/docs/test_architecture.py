import re
from pathlib import Path

from tools.gen_state_diagram import BEGIN, END, FILE, diagram, with_diagram

from trunkline.engine.transitions import TABLE

SOURCE = Path(__file__).parents[2] / "src" / "trunkline"
TASKS = FILE.read_text("utf-8")
PAGE = (FILE.parent / "architecture.md").read_text("utf-8")


def test_the_state_diagram_is_up_to_date() -> None:
    assert BEGIN in TASKS
    assert END in TASKS
    assert with_diagram(TASKS) == TASKS, "the diagram is stale: run tools/gen_state_diagram.py"


def test_the_diagram_has_every_transition() -> None:
    drawn = {
        (before, step, after)
        for before, after, steps in re.findall(r"(\w+) --> (\w+): (.+)", diagram())
        for step in steps.split(", ")
    }
    assert drawn == {
        (before.name, step.value, after.name) for (before, step), after in TABLE.items()
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
