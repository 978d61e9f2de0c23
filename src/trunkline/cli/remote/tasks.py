"""`trunkline status`, `list` and `cancel`."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer
from msgspec.structs import replace

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, exit_of
from trunkline.cli.output import json_document
from trunkline.cli.remote.invocation import Invocation, agent_command
from trunkline.model.calls import ListTasksRequest
from trunkline.model.errors import ConfigError
from trunkline.model.values import HAS_WORK, Task, TaskState

if TYPE_CHECKING:
    from trunkline.remote import RemoteAgent, TaskPage

_PAGE = 100
State: TypeAlias = Literal[
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "rejected",
    "input-required",
    "auth-required",
]


@agent_command
async def status(
    call: Invocation,
    task: options.TaskArgument = "",
    save: options.Save = None,
    history: options.History = None,
) -> Exit:
    """Show the state and the answer of a task.

    The exit code tells whether the agent could be asked, not how the task ended.
    """
    from trunkline.cli.remote.conversations import task_or_last
    from trunkline.cli.remote.files import check_folder, save_all

    check_folder(save)
    async with call.agent() as (agent, card):
        task_id = task_or_last(task, agent, card, call.named)
        found = await agent.get(task_id, history_length=history or 0)
    if call.is_json:
        print(json_document(found))
    else:
        from trunkline.cli.remote.tables import print_task

        print_task(found, history=bool(history))
    if save is not None:
        save_all(found.artifacts, found.status.message, save, quiet=call.flags.quiet)
    return Exit.DONE


@agent_command
async def list_tasks(
    call: Invocation,
    context: Annotated[
        str, options.id_option("Only tasks of this conversation.", default="all")
    ] = "",
    status: Annotated[
        State | None, typer.Option(help="Only tasks in this state.", show_default="all")
    ] = None,
    limit: Annotated[int, options.limit_option("Maximum number of tasks.")] = 20,
    all_: Annotated[bool, typer.Option("--all", "-a", help="List all tasks.")] = False,
) -> Exit:
    """List your tasks at an agent, newest first."""
    state = TaskState[(status or "unspecified").upper().replace("-", "_")]
    request = ListTasksRequest(context_id=context, status=state, history_length=1)
    async with call.agent() as (agent, _):
        page = await _pages(agent, request, None if all_ else limit)
    if call.is_json:
        print(json_document(page))
    else:
        _print(page, call)
    return Exit.DONE


async def _pages(agent: "RemoteAgent", request: ListTasksRequest, limit: int | None) -> "TaskPage":
    """All pages up to the limit as one page, whose token continues after the last task."""
    from trunkline.remote import TaskPage

    tasks: list[Task] = []
    token, total = "", 0
    while limit is None or len(tasks) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(tasks))
        page = await agent.list(replace(request, page_size=size, page_token=token))
        tasks += page.tasks
        is_stuck = page.next_page_token == token or not page.tasks
        token, total = page.next_page_token, max(total, page.total_size)
        if not token or is_stuck:
            break
    kept = tuple(tasks if limit is None else tasks[:limit])
    return TaskPage(
        tasks=kept, next_page_token=token, page_size=len(kept), total_size=max(total, len(kept))
    )


def _print(page: "TaskPage", call: Invocation) -> None:
    from trunkline.cli.remote.tables import HEADS, print_rows, task_row

    rows = [task_row(task) for task in page.tasks]
    if rows:
        print_rows(HEADS, rows)
    if call.flags.quiet or not sys.stderr.isatty():
        return
    if not rows:
        print("no tasks", file=sys.stderr)
    elif page.next_page_token:
        print(
            f"{len(rows)} of {page.total_size}; use --limit N or --all to see more", file=sys.stderr
        )


@agent_command
async def cancel(
    call: Invocation,
    task: Annotated[str, typer.Argument(metavar="TASK", help="Id of a task.")] = "",
) -> Exit:
    """Cancel a task."""
    from trunkline.cli.remote.conversations import last_with

    async with call.agent() as (agent, card):
        if not task:
            # A cancel cannot be undone, so the last task is only suggested.
            last = last_with(agent, card)
            if last is None or not last.task_id:
                raise ConfigError(f"TASK is missing. Find it: {call.command('list')}")
            line = call.command("cancel", last.task_id)
            raise ConfigError(f"TASK is missing. For the last one: {line}")
        done = await agent.cancel(task)
    state = done.status.state
    if call.is_json:
        print(json_document(done))
    elif not call.flags.quiet:
        from trunkline.cli.remote.tables import state_name

        soon = "; the agent may take a while to stop" if state in HAS_WORK else ""
        print(f"{state_name(state)}{soon}")
    return Exit.DONE if state is TaskState.CANCELED else exit_of(state)
