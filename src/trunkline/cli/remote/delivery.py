"""`deliver` and `watch_task`: from the first request to the answer, its files and exit code."""

import contextlib
from pathlib import Path

from trunkline.cli.exit_codes import Exit, exit_of
from trunkline.cli.output import json_document, one_line, program
from trunkline.cli.remote.conversations import last_with, task_or_last
from trunkline.cli.remote.files import check_folder, save_all
from trunkline.cli.remote.follow import TaskFollower, View, wrapped
from trunkline.cli.remote.invocation import Invocation
from trunkline.cli.remote.send import MessageFlags
from trunkline.clock import new_key
from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.errors import ConfigError
from trunkline.model.values import HAS_WORK, INTERRUPTED, Message, Part, Role, Task, TaskState
from trunkline.remote import PeerRefused, RemoteAgent, RemoteError
from trunkline.remote.progress import Progress


async def watch_task(call: Invocation, task: str, save: Path | None) -> Exit:
    check_folder(save)
    screen = call.open_screen(shows_stream=True, waiting_for="the task")
    async with call.agent() as (agent, card):
        view = View(screen, output=call.flags.output, agent=one_line(card.name))
        follower = TaskFollower(agent, card, call, view, keeps_artifacts=save is not None)
        await follower.watch(task_or_last(task, agent, card, call.named))
        return finish(follower, save=save)


async def deliver(
    call: Invocation,
    flags: MessageFlags,
    parts: tuple[Part, ...],
    history: int | None,
    *,
    waits: bool = True,
    streams: bool = True,
    shows_stream: bool = False,
) -> Exit:
    """`streams`: the answer may come as a stream; `shows_stream`: it is printed as one anyway."""
    check_folder(flags.save)
    if flags.save is not None and not waits:
        raise ConfigError(
            "--save needs the answer, and --no-wait does not wait for it. Leave one of them "
            f"out; `{program()} status` and `{program()} watch` can save the answer later."
        )
    if flags.continue_ and (flags.task or flags.context):
        raise ConfigError(
            "--continue continues the last conversation. Leave it out to name another one "
            "with --task or --context."
        )
    screen = call.open_screen(shows_stream=shows_stream, waiting_for="its card")
    async with call.agent() as (agent, card):
        message, before = await _addressed(agent, card, call, flags, parts)
        view = View(
            screen,
            output=call.flags.output,
            prints=shows_stream,
            agent=one_line(card.name),
            before=before,
        )
        # Documents and files are made of the artifacts; a text is kept by its view.
        keeps_artifacts = flags.save is not None or (call.is_json and not shows_stream)
        follower = TaskFollower(agent, card, call, view, keeps_artifacts=keeps_artifacts)
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
        return finish(follower, save=flags.save, before=before, waits=waits)


async def _addressed(
    agent: RemoteAgent,
    card: AgentCard,
    call: Invocation,
    flags: MessageFlags,
    parts: tuple[Part, ...],
) -> tuple[Message, Task | None]:
    """The message, and the task that it answers, as it was before."""
    task_id, context_id = flags.task, flags.context
    before = await agent.get(task_id) if task_id else None
    if flags.continue_:
        last = last_with(agent, card)
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


async def _known(agent: RemoteAgent, task_id: str) -> Task | None:
    """The task, or None if the agent has forgotten it: the conversation can still continue."""
    try:
        return await agent.get(task_id) if task_id else None
    except PeerRefused as error:
        if error.reason != "TASK_NOT_FOUND":
            raise
        return None


async def print_document(progress: Progress, agent: RemoteAgent, *, history: int | None) -> None:
    """Print the answer as one document, in the form of A2A 1.0."""
    item: Task | Message | None = progress.last_message
    if progress.has_task:
        item = progress.task()
        # A stream does not bring the history along.
        with contextlib.suppress(RemoteError):
            item = await agent.get(progress.task_id, history_length=history)
    if item is not None:
        print(json_document(wrapped(item)))


def finish(
    follower: TaskFollower, *, save: Path | None, before: Task | None = None, waits: bool = True
) -> Exit:
    """Save the files, print the state and a hint, and return the exit code."""
    call, progress, view = follower.call, follower.progress, follower.view
    view.screen.close()
    if save is not None:
        message = progress.status.message if progress.status is not None else progress.last_message
        known = before.artifacts if before is not None else ()
        new = [one for one in progress.artifacts() if one not in known]
        line = call.command("status", progress.task_id, "--save", "DIR")
        again = line if progress.has_task else ""
        save_all(new, message, save, quiet=call.flags.quiet, again=again)
    state = progress.state
    is_well = state in (None, TaskState.COMPLETED) or (not waits and state in HAS_WORK)
    if view.screen.talks or (not is_well and not call.flags.quiet):
        view.screen.ended(
            state, progress.task_id, context_id=progress.context_id, reason=view.reason
        )
        _hint(follower, is_saved=save is not None)
    return Exit.DONE if is_well else exit_of(state)


def _hint(follower: TaskFollower, *, is_saved: bool) -> None:
    call, view, task_id = follower.call, follower.view, follower.progress.task_id
    named = ("--continue",) if follower.is_remembered else ("--task", task_id)
    answer = call.command("send", *named, says=True)
    match follower.progress.state:
        case TaskState.INPUT_REQUIRED:
            view.screen.hint("Answer:", answer)
        case TaskState.AUTH_REQUIRED:
            view.screen.hint("Sign in as it says, then:", answer)
        case state if state in HAS_WORK:
            view.screen.hint("Follow it:", call.command("watch", task_id))
        case TaskState() if view.files and not is_saved:
            what = "a file" if view.files == 1 else f"{view.files} files"
            line = call.command("status", task_id, "--save", "DIR")
            view.screen.hint(f"Get {what}:", line)
        case _:
            pass
