"""`trunkline send`, `stream` and `watch`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import one_line, program
from trunkline.cli.remote.invocation import Invocation, Work, agent_command
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.model.values import Message, Part, Task
    from trunkline.remote import RemoteAgent


@agent_command
def send(
    call: Invocation,
    text: options.Text = None,
    file: options.Files = None,
    data: options.Data = None,
    save: options.Save = None,
    continue_: options.Continue = False,
    task: options.TaskOption = "",
    context: options.Context = "",
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Print the task id at once; do not wait for the answer."),
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Request the answer in one piece.")
    ] = False,
    history: options.History = None,
) -> Work:
    """Send a message to an agent and print the answer.

    On a terminal the answer appears while the agent writes it. In a pipe, only the text of the
    answer is printed on stdout. The exit code tells how the task ended.
    """
    from trunkline.cli.remote.files import message_parts

    parts = message_parts(text, file or [], data or [])
    place = _Place(task, context, continue_)
    return _deliver(
        call, parts, place, history=history, save=save, waits=not no_wait, streams=not no_stream
    )


@agent_command
def stream(
    call: Invocation,
    text: options.Text = None,
    file: options.Files = None,
    data: options.Data = None,
    save: options.Save = None,
    continue_: options.Continue = False,
    task: options.TaskOption = "",
    context: options.Context = "",
    history: options.History = None,
) -> Work:
    """Send a message and print the answer while the agent writes it, also in a pipe.

    With -o json, prints one line for each event.
    """
    from trunkline.cli.remote.files import message_parts

    parts = message_parts(text, file or [], data or [])
    place = _Place(task, context, continue_)
    return _deliver(call, parts, place, history=history, save=save, shows_stream=True)


@agent_command
async def watch(
    call: Invocation, task: options.TaskArgument = "", save: options.Save = None
) -> Exit:
    """Follow a task until it ends or asks a question.

    Reconnects when the connection breaks. Ctrl+C stops watching; the task continues. With
    -o json, prints one line for each event.
    """
    from trunkline.cli.remote.conversations import task_or_last
    from trunkline.cli.remote.files import check_folder
    from trunkline.cli.remote.follow import TaskFollower
    from trunkline.cli.remote.screen import View
    from trunkline.cli.remote.summary import finish

    check_folder(save)
    screen = call.open_screen(shows_stream=True, waiting_for="the task")
    async with call.agent() as agent:
        waiting_for = f"{one_line((await agent.card()).name)} is working"
        view = View(screen, output=call.given.output, waiting_for=waiting_for)
        follower = TaskFollower(agent, call, view, keeps_artifacts=save is not None)
        await follower.watch(await task_or_last(task, agent, call.named))
        return finish(follower, save=save)


class _Place(NamedTuple):
    """The flags that say where a message belongs."""

    task_id: str
    context_id: str
    continues: bool


async def _deliver(
    call: Invocation,
    parts: "tuple[Part, ...]",
    place: _Place,
    *,
    history: int | None,
    save: Path | None,
    waits: bool = True,
    streams: bool = True,
    shows_stream: bool = False,
) -> Exit:
    """`streams`: the answer may come as a stream; `shows_stream`: it is printed as one anyway."""
    from trunkline.cli.remote.files import check_folder
    from trunkline.cli.remote.follow import TaskFollower
    from trunkline.cli.remote.screen import View
    from trunkline.cli.remote.summary import finish, print_document
    from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest

    check_folder(save)
    if save is not None and not waits:
        raise ConfigError(
            "--save needs the answer, and --no-wait does not wait for it. Leave one of them "
            f"out; `{program()} status` and `{program()} watch` can save the answer later."
        )
    if place.continues and (place.task_id or place.context_id):
        raise ConfigError(
            "--continue continues the last conversation. Leave it out to name another one "
            "with --task or --context."
        )
    screen = call.open_screen(shows_stream=shows_stream, waiting_for="its card")
    async with call.agent() as agent:
        card = await agent.card()
        message, before = await _addressed(agent, call, parts, place)
        view = View(
            screen,
            output=call.given.output,
            prints=shows_stream,
            waiting_for=f"{one_line(card.name)} is working",
            before=before,
        )
        # Documents and files are made of the artifacts; a text is kept by its view.
        keeps_artifacts = save is not None or (call.is_json and not shows_stream)
        follower = TaskFollower(agent, call, view, keeps_artifacts=keeps_artifacts)
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(history_length=history)
        )
        await follower.send(request, waits=waits, streams=streams, before=before)
        progress = follower.progress
        if call.is_json:
            if not shows_stream:
                await print_document(progress, agent, history=history)
        elif not waits and progress.has_task:
            print(one_line(progress.task_id))
        elif view.answer is not None:
            screen.answer(view.answer.blocks())
        return finish(follower, save=save, before=before, waits=waits)


async def _addressed(
    agent: "RemoteAgent", call: Invocation, parts: "tuple[Part, ...]", place: _Place
) -> "tuple[Message, Task | None]":
    """The message, and the task that it answers, as it was before."""
    from trunkline.cli.remote.conversations import last_with
    from trunkline.clock import new_key
    from trunkline.model.values import INTERRUPTED, Message, Role

    task_id, context_id, continues = place
    before = await agent.get(task_id) if task_id else None
    if continues:
        last = await last_with(agent)
        if last is None:
            raise ConfigError(
                f"there is no earlier conversation with {call.named}. Leave out --continue, or "
                "name one with --context ID."
            )
        context_id = last.context_id
        before = await _known(agent, last.task_id)
        if before is not None and before.status.state in INTERRUPTED:
            task_id, context_id = before.id, before.context_id
        else:
            before = None
    elif before is not None:
        context_id = context_id or before.context_id
    message = Message(
        message_id=new_key(), role=Role.USER, parts=parts, task_id=task_id, context_id=context_id
    )
    return message, before


async def _known(agent: "RemoteAgent", task_id: str) -> "Task | None":
    """The task, or None if the agent has forgotten it: the conversation can still continue."""
    from trunkline.remote import PeerRefused

    try:
        return await agent.get(task_id) if task_id else None
    except PeerRefused as error:
        if error.reason != "TASK_NOT_FOUND":
            raise
        return None
