"""`trunkline status`."""

from typing import TYPE_CHECKING

from trunkline.cli.options import Form
from trunkline.cli.remote import options
from trunkline.cli.remote.calling import Call, calls_agent

if TYPE_CHECKING:
    from trunkline.cli.exits import Exit
    from trunkline.cli.remote.ending import Errand
    from trunkline.remote import RemoteAgent


@calls_agent
def status(
    call: Call,
    task: options.TaskArgument = "",
    save: options.Save = None,
    history: options.History = None,
) -> None:
    """Show the state and the answer of a task.

    The exit code tells whether the agent could be asked, not how the task ended.
    """
    from trunkline.cli.exits import Exit
    from trunkline.cli.remote.conversations import task_or_last
    from trunkline.cli.remote.documents import document
    from trunkline.cli.remote.ending import about_card, perform
    from trunkline.cli.remote.saving import check_folder, save_all
    from trunkline.cli.remote.tasks import print_task

    check_folder(save)

    async def work(agent: "RemoteAgent", errand: "Errand") -> "Exit":
        async with about_card():
            task_id = await task_or_last(task, agent, call.named)
        found = await agent.get(task_id, history_length=history if history is not None else 0)
        if call.output is Form.json:
            print(document(found))
        else:
            print_task(found, history=bool(history))
        if save is not None:
            save_all(found.artifacts, found.status.message, save, quiet=call.quiet)
        return Exit.DONE

    perform(call, work)
