"""The tasks of the caller at all targets, as one list."""

import asyncio
import sys

from msgspec import Struct
from msgspec.structs import replace

from trunkline.cli.exits import Exit
from trunkline.cli.remote.calling import Call
from trunkline.cli.remote.clean import one_line
from trunkline.cli.remote.problems import explained
from trunkline.cli.remote.tables import is_narrow, print_rows
from trunkline.cli.remote.tasks import HEADS, task_row
from trunkline.model.calls import ListTasksRequest
from trunkline.model.values import Task
from trunkline.remote import Limits, RemoteError, Target, connect


class Tasks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest tasks at one target, or why they cannot be told."""

    alias: str
    url: str
    tasks: tuple[Task, ...] = ()
    error: str = ""


async def tasks_at(
    targets: tuple[Target, ...], *, limit: int, timeout_s: float
) -> tuple[list[Tasks], Exit]:
    """All are asked at the same time. The code is that of the first that could not tell."""
    asked = [_at(target, limit, timeout_s) for target in targets]
    found = await asyncio.gather(*asked)
    return [one for one, _ in found], next((code for _, code in found if code), Exit.DONE)


async def _at(target: Target, limit: int, timeout_s: float) -> tuple[Tasks, Exit]:
    told = Tasks(alias=target.alias, url=target.url)
    limits = Limits(card_s=timeout_s, connect_s=timeout_s, call_s=timeout_s, attempts=1)
    # That of the target is for its answers, which may take long.
    target = replace(target, timeout_s=None)
    request = ListTasksRequest(page_size=limit, history_length=1)
    is_card = True
    try:
        async with connect(target, limits=limits) as agent:
            await agent.card()
            is_card = False
            page = await agent.list(request)
    except RemoteError as error:
        call = Call(named=target.url, target=target)
        code, text = explained(error, call, is_card=is_card)
        return replace(told, error=text), code
    return replace(told, tasks=page.tasks[:limit]), Exit.DONE


def print_tasks(found: list[Tasks], *, quiet: bool) -> None:
    tasks = [(one.alias, task) for one in found for task in one.tasks]
    # The latest first; a time that is not told is the oldest.
    tasks.sort(key=lambda pair: pair[1].status.timestamp, reverse=True)
    if tasks:
        brief = is_narrow()
        print_rows(
            ("TARGET", *HEADS), [(alias, *task_row(task, brief=brief)) for alias, task in tasks]
        )
    elif not quiet and not any(one.error for one in found):
        print("no tasks", file=sys.stderr)
    for one in found:
        if one.error and not quiet:
            print(f"{one_line(one.alias)}: {one_line(one.error)}", file=sys.stderr)
