"""`trunkline cancel`."""

from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.options import Form
from trunkline.cli.remote.calling import Call, calls_agent

if TYPE_CHECKING:
    from trunkline.cli.exits import Exit
    from trunkline.cli.remote.ending import Errand
    from trunkline.model.errors import ConfigError
    from trunkline.remote import RemoteAgent


@calls_agent
def cancel(
    call: Call,
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="Id of a task.", show_default=False)
    ] = "",
) -> None:
    """Cancel a task."""
    from trunkline.cli.exits import Exit, exit_of
    from trunkline.cli.remote.documents import document
    from trunkline.cli.remote.ending import about_card, perform
    from trunkline.cli.remote.tasks import state_name
    from trunkline.model.values import HAS_WORK, TaskState

    async def work(agent: "RemoteAgent", errand: "Errand") -> "Exit":
        async with about_card():
            await agent.card()
        if not task:
            raise await _unnamed(call, agent)
        done = await agent.cancel(task)
        state = done.status.state
        if call.output is Form.json:
            print(document(done))
        elif not call.quiet:
            soon = "; the agent may take a while to stop" if state in HAS_WORK else ""
            print(f"{state_name(state)}{soon}")
        return Exit.DONE if state is TaskState.CANCELED else exit_of(state)

    perform(call, work)


async def _unnamed(call: Call, agent: "RemoteAgent") -> "ConfigError":
    """A cancel cannot be undone, so the last task is only suggested."""
    from trunkline.cli.remote.conversations import last_with
    from trunkline.model.errors import ConfigError

    last = await last_with(agent)
    if last is None or not last.task_id:
        return ConfigError(f"TASK is missing. Find it: {call.command('list')}")
    return ConfigError(f"TASK is missing. For the last one: {call.command('cancel', last.task_id)}")
