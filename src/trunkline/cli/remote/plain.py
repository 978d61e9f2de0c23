"""A conversation without a terminal: the answer on stdout, the end on stderr if it is not well."""

import sys
from collections.abc import Iterable

from trunkline.cli.remote.clean import clean, one_line
from trunkline.cli.remote.telling import Said, Words
from trunkline.model.values import TaskState

# How each state shows: a sign, a colour, words.
SIGNS: dict[TaskState, tuple[str, str, str]] = {
    TaskState.COMPLETED: ("✓", "green", "completed"),
    TaskState.FAILED: ("✗", "red", "failed"),
    TaskState.REJECTED: ("✗", "red", "rejected"),
    TaskState.CANCELED: ("■", "yellow", "canceled"),
    TaskState.INPUT_REQUIRED: ("?", "yellow", "waits for your answer"),
    TaskState.AUTH_REQUIRED: ("?", "yellow", "waits for a sign-in"),
    TaskState.WORKING: ("…", "cyan", "working"),
    TaskState.SUBMITTED: ("…", "cyan", "submitted"),
    TaskState.UNSPECIFIED: ("…", "cyan", "in an unknown state"),
}


class PlainScreen:
    """`shows_text`: the answer is written as it comes. `talks`: so is what leads to it.

    Needs no rich, which takes longer to load than most answers take.
    """

    talks = False

    def __init__(self, *, shows_text: bool) -> None:
        self.shows_text = shows_text
        # The text that is being written.
        self._place: str | None = None
        self._is_line_open = False

    def wait(self, text: str) -> None:
        """Show that something is waited for."""

    def close(self) -> None:
        """Leave the cursor on a line of its own."""
        if self._is_line_open:
            self._write("\n")
            self._is_line_open = False
        self._place = None

    def show(self, said: Said) -> None:
        if isinstance(said, Words) and self.shows_text:
            self._words(said)

    def answer(self, blocks: Iterable[str]) -> None:
        """The whole answer at once, in pieces if it is long."""
        self.close()
        last = ""
        for block in blocks:
            text = clean(block)
            self._write(text)
            last = text or last
        if last and not last.endswith("\n"):
            self._write("\n")

    def ended(self, state: TaskState, task_id: str, *, reason: str = "") -> None:
        """The line about the task."""
        self.close()
        sign, colour, words = SIGNS[state]
        why = f": {one_line(reason)}" if reason else ""
        self._tell((f"{sign} {words}", colour), (why, ""), (f"  task {one_line(task_id)}", "dim"))

    def answered(self, context_id: str) -> None:
        """The line about an answer that made no task."""
        self.close()
        if self.talks:
            context = f"  context {one_line(context_id)}" if context_id else ""
            self._tell(("✓ answered", "green"), (context, "dim"))

    def hint(self, label: str, command: str = "") -> None:
        """What to do next; the command is on one line, to be copied."""
        self._tell((f"  {label}", "dim"), (f" {command}" if command else "", ""))

    def _words(self, words: Words) -> None:
        text = clean(words.text)
        if words.place != self._place or words.replaces:
            follows = self._place is not None
            self.close()
            if follows:
                self._write("\n")
            self._heading(words)
            self._place = words.place
        self._write(text)
        if text:
            self._is_line_open = not text.endswith("\n")

    def _heading(self, words: Words) -> None:
        """What stands above a text."""

    def _tell(self, *pieces: tuple[str, str]) -> None:
        """A line on stderr; each piece has its style."""
        print("".join(text for text, _ in pieces), file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
