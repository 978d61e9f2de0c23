"""`send` and `stream`: a message, and the answer to it."""

from pathlib import Path

from msgspec import Struct

from trunkline.cli.exits import Exit
from trunkline.cli.options import Form
from trunkline.cli.program import program
from trunkline.cli.remote.calling import Call
from trunkline.cli.remote.clean import one_line
from trunkline.cli.remote.conversations import last_with
from trunkline.cli.remote.ending import Errand, about_card, perform
from trunkline.cli.remote.finishing import Finish
from trunkline.cli.remote.following import Following
from trunkline.cli.remote.saving import check_folder
from trunkline.cli.remote.views import screen_for, view_for
from trunkline.clock import new_key
from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.errors import ConfigError
from trunkline.model.values import INTERRUPTED, Message, Part, Role, Task
from trunkline.remote import PeerRefused, RemoteAgent


class Sending(Struct, frozen=True, kw_only=True):
    """A message, and what to do with the answer."""

    parts: tuple[Part, ...]
    task_id: str = ""
    context_id: str = ""
    is_continued: bool = False
    history: int | None = None
    save: Path | None = None
    waits: bool = True
    # Whether the answer may come as a stream, and whether it is shown as one in any case.
    streams: bool = True
    shows_stream: bool = False

    def check(self) -> None:
        """Raises ConfigError."""
        check_folder(self.save)
        if self.save is not None and not self.waits:
            raise ConfigError(
                "--save needs the answer, and --no-wait does not wait for it. Leave one of them "
                f"out; `{program()} status` and `{program()} watch` can save the answer later."
            )
        if self.is_continued and (self.task_id or self.context_id):
            raise ConfigError(
                "--continue continues the last conversation. Leave it out to name another one "
                "with --task or --context."
            )


def deliver(call: Call, sending: Sending) -> None:
    """Raises ConfigError, and typer.Exit in the end."""
    sending.check()

    async def work(agent: RemoteAgent, errand: Errand) -> Exit:
        return await _deliver(agent, errand, sending)

    perform(call, work)


async def _deliver(agent: RemoteAgent, errand: Errand, sending: Sending) -> Exit:
    call = errand.call
    screen = screen_for(
        output=call.output,
        quiet=call.quiet,
        verbose=call.verbose,
        shows_stream=sending.shows_stream,
    )
    errand.on_end = screen.close
    screen.wait(f"asking {one_line(call.named)} for its card")
    async with about_card():
        card = await agent.card()
    place = await _place(agent, call, sending)
    view = view_for(
        screen,
        output=call.output,
        prints=sending.shows_stream,
        waiting_for=f"{one_line(card.name)} is working",
        before=place.before,
    )
    # A document is made of them, and so are files; an answer as text is kept by its view.
    keeps_artifacts = sending.save is not None or (
        call.output is Form.json and not sending.shows_stream
    )
    following = Following(agent, errand, view, keeps_artifacts=keeps_artifacts)
    await following.send(
        _request(sending, place),
        waits=sending.waits,
        streams=sending.streams,
        before=place.before,
    )
    finish = Finish(
        call=call,
        screen=screen,
        view=view,
        progress=following.progress,
        before=place.before,
        save=sending.save,
        is_remembered=following.is_remembered,
    )
    if call.output is Form.json:
        if not sending.shows_stream:
            await finish.print_document(agent, history=sending.history)
    elif not sending.waits and following.progress.has_task:
        print(one_line(following.progress.task_id))
    else:
        finish.print_answer()
    return finish.end(waits=sending.waits)


class _Place(Struct, frozen=True, kw_only=True):
    """Where a message belongs; `before` is the task that it answers, as it was."""

    task_id: str = ""
    context_id: str = ""
    before: Task | None = None


async def _place(agent: RemoteAgent, call: Call, sending: Sending) -> _Place:
    if sending.is_continued:
        return await _continued(agent, call)
    before = await agent.get(sending.task_id) if sending.task_id else None
    context_id = sending.context_id or (before.context_id if before is not None else "")
    return _Place(task_id=sending.task_id, context_id=context_id, before=before)


async def _continued(agent: RemoteAgent, call: Call) -> _Place:
    last = await last_with(agent)
    if last is None:
        raise ConfigError(
            f"there is no earlier conversation with {call.named}. Leave out --continue, or name "
            "one with --context ID."
        )
    task = await _known(agent, last.task_id) if last.task_id else None
    if task is not None and task.status.state in INTERRUPTED:
        return _Place(task_id=task.id, context_id=task.context_id, before=task)
    return _Place(context_id=last.context_id)


async def _known(agent: RemoteAgent, task_id: str) -> Task | None:
    try:
        return await agent.get(task_id)
    except PeerRefused as error:
        # Forgotten by now; the conversation as a whole can still go on.
        if error.reason == "TASK_NOT_FOUND":
            return None
        raise


def _request(sending: Sending, place: _Place) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(
            message_id=new_key(),
            role=Role.USER,
            parts=sending.parts,
            task_id=place.task_id,
            context_id=place.context_id,
        ),
        configuration=SendMessageConfiguration(history_length=sending.history),
    )
