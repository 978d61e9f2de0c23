"""Tables and tasks as text: columns on a terminal, tab-separated lines in a pipe."""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from trunkline.cli.output import clean, one_line
from trunkline.cli.remote.events import EventReader, answer_of, tool_of
from trunkline.cli.remote.files import size
from trunkline.cli.remote.screen import SIGNS
from trunkline.model.values import Part, Role, Task, TaskState, text_of

HEADS: Final = ("TASK", "STATE", "SINCE (UTC)", "LAST MESSAGE")
_UTC: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")

_GAP: Final = 2
# A narrower column is left out.
_LEAST: Final = 8
_LABEL: Final = 11
# A narrower terminal has room for an id, a state and a time alone.
_WIDE: Final = 100


def console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. A terminal gets a heading, and rows that are cut to its width."""
    cleaned = [[one_line(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in cleaned:
            print("\t".join(row))
        return
    shown = console()
    for index, line in enumerate(aligned([list(heads), *cleaned], width=shown.width)):
        shown.print(Text(line, style="bold" if index == 0 else ""), soft_wrap=True)


def aligned(rows: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """The rows as lines of columns. The first column is whole; others are cut or left out."""
    lines, left = [""] * len(rows), width - 1
    for number, column in enumerate(zip(*rows, strict=True)):
        needed = max(map(cell_len, column))
        size = needed if number == 0 else min(needed, left)
        if size < min(needed, _LEAST):
            break
        lines = [
            line + set_cell_size(_cut(cell, size), size + _GAP)
            for line, cell in zip(lines, column, strict=True)
        ]
        left -= size + _GAP
    return [line.rstrip() for line in lines]


def _cut(cell: str, size: int) -> str:
    return cell if cell_len(cell) <= size else f"{set_cell_size(cell, size - 1).rstrip()}…"


def print_pairs(pairs: Sequence[tuple[str, str | Text]]) -> None:
    """Print names and values. A value that is too long for the terminal gets further lines."""
    shown, previous = console(), ""
    for name, value in pairs:
        text = Text(one_line(value)) if isinstance(value, str) else value
        room = max(_LEAST, shown.width - _LABEL) if shown.is_terminal else len(text) + 1
        for number, line in enumerate(text.wrap(shown, room)):
            line.rstrip()
            label = "" if number or name == previous else name
            shown.print(
                Text.assemble((f"{label:<{_LABEL}}", "bold"), line) if line else "", soft_wrap=True
            )
        previous = name


def state_name(state: TaskState) -> str:
    return state.value.removeprefix("TASK_STATE_").lower().replace("_", "-")


def shown_time(timestamp: str, *, zone: str = "") -> str:
    """`2026-11-16T18:41:56.205Z` as `2026-11-16 18:41:56`; a time of another zone unchanged."""
    match = _UTC.fullmatch(timestamp)
    return one_line(timestamp) if match is None else f"{match[1]} {match[2]}{zone}"


def task_row(task: Task) -> tuple[str, str, str, str]:
    """The cells of a list, under `HEADS`; on a narrow terminal the time is to the minute."""
    message = task.status.message or (task.history[-1] if task.history else None)
    words = text_of(message.parts)[:200] if message is not None else ""
    # A pipe gets no heading, which would name the zone.
    zone = "" if sys.stdout.isatty() else " UTC"
    since = shown_time(task.status.timestamp, zone=zone)
    is_narrow = sys.stdout.isatty() and console().width < _WIDE
    if is_narrow and _UTC.fullmatch(task.status.timestamp):
        since = since[len("2026-") : -len(":56")]
    return task.id, state_name(task.status.state), since, words


def print_task(task: Task, *, history: bool) -> None:
    print_pairs([*_about(task), *(_history(task) if history else ())])
    answer = clean(answer_of(EventReader().read(task)))
    if answer:
        print(f"\n{answer}")


def _about(task: Task) -> Iterator[tuple[str, str | Text]]:
    yield "Task", task.id
    yield "State", Text(state_name(task.status.state), style=SIGNS[task.status.state][1])
    if task.status.timestamp:
        yield "Since", shown_time(task.status.timestamp, zone=" UTC")
    if task.context_id:
        yield "Context", task.context_id
    for artifact in task.artifacts:
        if tool_of(artifact) is None:
            kinds = _kinds(artifact.parts) or "empty"
            yield "Artifacts", f"{artifact.name or artifact.artifact_id} ({kinds})"


def _history(task: Task) -> Iterator[tuple[str, str]]:
    for message in task.history:
        who = "You said" if message.role is Role.USER else "It said"
        yield who, text_of(message.parts) or _kinds(message.parts)


def _kinds(parts: tuple[Part, ...]) -> str:
    return ", ".join(_kind(part) for part in parts)


def _kind(part: Part) -> str:
    if part.text is not None:
        return f"text, {size(len(part.text.encode()))}"
    if part.raw is not None:
        return f"{part.media_type or 'file'}, {size(len(part.raw))}"
    return "data" if part.data is not UNSET else f"link, {part.url}"
