"""A task for people to read."""

import re
import sys
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET
from rich.text import Text

from trunkline.cli.remote.clean import clean, one_line
from trunkline.cli.remote.content import size
from trunkline.cli.remote.plain import SIGNS
from trunkline.cli.remote.tables import print_pairs
from trunkline.cli.remote.telling import Telling, answer_of
from trunkline.cli.remote.tools import tool_of
from trunkline.model.values import Artifact, Part, Role, Task, TaskState, text_of

_UTC: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")


HEADS: Final = ("TASK", "STATE", "SINCE (UTC)", "LAST MESSAGE")


def state_name(state: TaskState) -> str:
    return state.value.removeprefix("TASK_STATE_").lower().replace("_", "-")


def shown_time(timestamp: str, *, zone: str = "") -> str:
    """`2026-11-16T18:41:56.205Z` as `2026-11-16 18:41:56`; of another zone, as it is."""
    match = _UTC.fullmatch(timestamp)
    return one_line(timestamp) if match is None else f"{match[1]} {match[2]}{zone}"


def task_row(task: Task, *, brief: bool = False) -> tuple[str, str, str, str]:
    """The cells of a list, under `HEADS`; `brief`: the time to the minute."""
    message = task.status.message or (task.history[-1] if task.history else None)
    words = text_of(message.parts)[:200] if message is not None else ""
    # In a pipe there is no heading that names the zone.
    zone = "" if sys.stdout.isatty() else " UTC"
    since = shown_time(task.status.timestamp, zone=zone)
    if brief and _UTC.fullmatch(task.status.timestamp):
        since = since[len("2026-") : -len(":56")]
    return task.id, state_name(task.status.state), since, words


def print_task(task: Task, *, history: bool) -> None:
    print_pairs([*_about(task), *(_history(task) if history else ())])
    answer = clean(answer_of(list(Telling().add(task))))
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
            yield "Artifacts", f"{artifact.name or artifact.artifact_id} ({_parts(artifact)})"


def _history(task: Task) -> Iterator[tuple[str, str]]:
    for message in task.history:
        who = "You said" if message.role is Role.USER else "It said"
        yield who, text_of(message.parts) or _kinds(message.parts)


def _parts(artifact: Artifact) -> str:
    return _kinds(artifact.parts) or "empty"


def _kinds(parts: tuple[Part, ...]) -> str:
    return ", ".join(_kind(part) for part in parts)


def _kind(part: Part) -> str:
    if part.text is not None:
        return f"text, {size(len(part.text.encode()))}"
    if part.raw is not None:
        return f"{part.media_type or 'file'}, {size(len(part.raw))}"
    return "data" if part.data is not UNSET else f"link, {part.url}"
