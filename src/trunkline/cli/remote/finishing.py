"""The end of a conversation: the answer, its files, the state, and what to do next."""

import contextlib
from pathlib import Path

from msgspec import Struct

from trunkline.cli.exits import Exit, exit_of
from trunkline.cli.remote.calling import Call
from trunkline.cli.remote.documents import document, wrapped
from trunkline.cli.remote.plain import PlainScreen
from trunkline.cli.remote.saving import save_all
from trunkline.cli.remote.views import AnyView, TextView
from trunkline.model.values import (
    HAS_WORK,
    Message,
    Task,
    TaskState,
)
from trunkline.remote import RemoteAgent, RemoteError
from trunkline.remote.progress import Progress


class Finish(Struct, frozen=True, kw_only=True):
    call: Call
    screen: PlainScreen
    view: AnyView
    progress: Progress
    before: Task | None = None
    save: Path | None = None
    is_remembered: bool = True

    async def print_document(self, agent: RemoteAgent, *, history: int | None) -> None:
        """The whole as one document, as A2A 1.0 answers a message."""
        progress = self.progress
        item: Task | Message | None = progress.last_message
        if progress.has_task:
            item = progress.task()
            # A stream does not bring the history along.
            with contextlib.suppress(RemoteError):
                item = await agent.get(progress.task_id, history_length=history)
        if item is not None:
            print(document(wrapped(item)))

    def print_answer(self) -> None:
        if isinstance(self.view, TextView) and self.view.answer is not None:
            self.screen.answer(self.view.answer.blocks())

    def end(self, *, waits: bool = True) -> Exit:
        """Save files, tell the state, and say what to do next."""
        self.screen.close()
        self._save()
        state = self.progress.state
        if state is None:
            self.screen.answered(self.progress.context_id)
            return Exit.DONE
        is_well = state is TaskState.COMPLETED or (not waits and state in HAS_WORK)
        if self.screen.talks or (not is_well and not self.call.quiet):
            self.screen.ended(state, self.progress.task_id, reason=self.view.reason)
            self._advise(state)
        return Exit.DONE if is_well else exit_of(state)

    def _save(self) -> None:
        if self.save is None:
            return
        status = self.progress.status
        message = status.message if status is not None else self.progress.last_message
        known = self.before.artifacts if self.before is not None else ()
        new = [one for one in self.progress.artifacts() if one not in known]
        again = ""
        if self.progress.has_task:
            again = self.call.command("status", self.progress.task_id, "--save", "DIR")
        save_all(new, message, self.save, quiet=self.call.quiet, again=again)

    def _advise(self, state: TaskState) -> None:
        call, screen = self.call, self.screen
        if state is TaskState.INPUT_REQUIRED:
            screen.hint("Answer:", self._answer())
        elif state is TaskState.AUTH_REQUIRED:
            screen.hint("Sign in as it says, then:", self._answer())
        elif state in HAS_WORK:
            screen.hint("Follow it:", call.command("watch", self.progress.task_id))
        elif self.save is None and isinstance(self.view, TextView) and self.view.files:
            count = self.view.files
            what = "a file" if count == 1 else f"{count} files"
            line = call.command("status", self.progress.task_id, "--save", "DIR")
            screen.hint(f"Get {what}:", line)

    def _answer(self) -> str:
        named = ("--continue",) if self.is_remembered else ("--task", self.progress.task_id)
        return self.call.command("send", *named, says=True)
