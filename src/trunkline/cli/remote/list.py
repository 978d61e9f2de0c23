"""`trunkline list`."""

from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.options import Form
from trunkline.cli.remote import options
from trunkline.cli.remote.calling import Call, calls_agent
from trunkline.cli.typed import not_empty, whole

if TYPE_CHECKING:
    from trunkline.cli.exits import Exit
    from trunkline.cli.remote.ending import Errand
    from trunkline.model.calls import ListTasksRequest
    from trunkline.model.values import Task
    from trunkline.remote import RemoteAgent, TaskPage

_PAGE = 100


@calls_agent
def list_tasks(
    call: Call,
    context: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="Only tasks of this conversation.",
            show_default="all",
            callback=not_empty,
        ),
    ] = "",
    status: Annotated[
        options.State | None, typer.Option(help="Only tasks in this state.", show_default="all")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", parser=whole(1), metavar="N", help="Maximum number of tasks."
        ),
    ] = 20,
    all_: Annotated[bool, typer.Option("--all", "-a", help="List all tasks.")] = False,
) -> None:
    """List your tasks at an agent, newest first."""
    from trunkline.cli.exits import Exit
    from trunkline.cli.remote.documents import document
    from trunkline.cli.remote.ending import about_card, perform
    from trunkline.model.calls import ListTasksRequest
    from trunkline.model.values import TaskState

    request = ListTasksRequest(
        context_id=context,
        status=TaskState.UNSPECIFIED if status is None else status.task_state,
        history_length=1,
    )

    async def work(agent: "RemoteAgent", errand: "Errand") -> "Exit":
        async with about_card():
            await agent.card()
        page = await _pages(agent, request, None if all_ else limit)
        if call.output is Form.json:
            print(document(page))
        else:
            _print(page, call)
        return Exit.DONE

    perform(call, work)


async def _pages(
    agent: "RemoteAgent", request: "ListTasksRequest", limit: int | None
) -> "TaskPage":
    """As many pages as it takes, as one. The last token goes on where the limit ended it."""
    from msgspec.structs import replace

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


def _print(page: "TaskPage", call: Call) -> None:
    import sys

    from trunkline.cli.remote.tables import is_narrow, print_rows
    from trunkline.cli.remote.tasks import HEADS, task_row

    rows = [task_row(task, brief=is_narrow()) for task in page.tasks]
    if rows:
        print_rows(HEADS, rows)
    if call.quiet or not sys.stderr.isatty():
        return
    if not rows:
        print("no tasks", file=sys.stderr)
    elif page.next_page_token:
        print(
            f"{len(rows)} of {page.total_size}; use --limit N or --all to see more", file=sys.stderr
        )
