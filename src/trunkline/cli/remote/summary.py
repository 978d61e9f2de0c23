"""The end of a conversation: the answer as one document, its files, its state and a hint."""

import contextlib
from pathlib import Path

from trunkline.cli.exit_codes import Exit, exit_of
from trunkline.cli.output import json_document
from trunkline.cli.remote.files import save_all
from trunkline.cli.remote.follow import TaskFollower
from trunkline.cli.remote.screen import wrapped
from trunkline.model.values import HAS_WORK, Message, Task, TaskState
from trunkline.remote import RemoteAgent, RemoteError
from trunkline.remote.progress import Progress


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
        _save(follower, save, before)
    state = progress.state
    is_well = state in (None, TaskState.COMPLETED) or (not waits and state in HAS_WORK)
    if view.screen.talks or (not is_well and not call.given.quiet):
        view.screen.ended(
            state, progress.task_id, context_id=progress.context_id, reason=view.reason
        )
        _hint(follower, is_saved=save is not None)
    return Exit.DONE if is_well else exit_of(state)


def _save(follower: TaskFollower, folder: Path, before: Task | None) -> None:
    call, progress = follower.call, follower.progress
    message = progress.status.message if progress.status is not None else progress.last_message
    known = before.artifacts if before is not None else ()
    new = [one for one in progress.artifacts() if one not in known]
    again = call.command("status", progress.task_id, "--save", "DIR") if progress.has_task else ""
    save_all(new, message, folder, quiet=call.given.quiet, again=again)


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
