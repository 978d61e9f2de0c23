"""`trunkline watch`."""

from typing import TYPE_CHECKING

from trunkline.cli.remote import options
from trunkline.cli.remote.calling import Call, calls_agent

if TYPE_CHECKING:
    from trunkline.cli.exits import Exit
    from trunkline.cli.remote.ending import Errand
    from trunkline.remote import RemoteAgent


@calls_agent
def watch(call: Call, task: options.TaskArgument = "", save: options.Save = None) -> None:
    """Follow a task until it ends or asks a question.

    Reconnects when the connection breaks. Ctrl+C stops watching; the task continues. With
    -o json, prints one line for each event.
    """
    from trunkline.cli.remote.clean import one_line
    from trunkline.cli.remote.conversations import task_or_last
    from trunkline.cli.remote.ending import about_card, perform
    from trunkline.cli.remote.finishing import Finish
    from trunkline.cli.remote.following import Following
    from trunkline.cli.remote.saving import check_folder
    from trunkline.cli.remote.views import screen_for, view_for

    check_folder(save)

    async def work(agent: "RemoteAgent", errand: "Errand") -> "Exit":
        screen = screen_for(
            output=call.output, quiet=call.quiet, verbose=call.verbose, shows_stream=True
        )
        errand.on_end = screen.close
        screen.wait(f"asking {one_line(call.named)} for the task")
        async with about_card():
            card = await agent.card()
            task_id = errand.task_id = await task_or_last(task, agent, call.named)
        view = view_for(
            screen,
            output=call.output,
            prints=True,
            waiting_for=f"{one_line(card.name)} is working",
        )
        following = Following(agent, errand, view, keeps_artifacts=save is not None)
        await following.watch(task_id)
        finish = Finish(
            call=call,
            screen=screen,
            view=view,
            progress=following.progress,
            save=save,
            is_remembered=following.is_remembered,
        )
        return finish.end()

    perform(call, work)
