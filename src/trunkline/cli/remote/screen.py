"""`PlainScreen`: an answer as text without a terminal.

`terminal.py` has the screen for people, which needs rich: that takes longer to load than most
answers take.
"""

import sys
from collections.abc import Iterable

from trunkline.cli.options import Form
from trunkline.cli.output import clean, one_line
from trunkline.cli.remote.events import Display, TextPiece
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
    """The answer on stdout, and on stderr the state of a task that did not end well.

    With `shows_text` the screen writes the answer as it comes, with `talks` also the progress.
    """

    talks = False

    def __init__(self, *, shows_text: bool) -> None:
        self.shows_text = shows_text
        # The text that is being written.
        self._place: str | None = None
        self._is_line_open = False

    def wait(self, text: str) -> None:
        """Show what the command waits for."""

    def close(self) -> None:
        """Leave the cursor on a line of its own."""
        if self._is_line_open:
            self._write("\n")
            self._is_line_open = False
        self._place = None

    def show(self, event: Display) -> None:
        if not isinstance(event, TextPiece) or not self.shows_text:
            return
        text = clean(event.text)
        if event.place != self._place or event.replaces:
            follows = self._place is not None
            self.close()
            if follows:
                self._write("\n")
            self._heading(event)
            self._place = event.place
        self._write(text)
        if text:
            self._is_line_open = not text.endswith("\n")

    def answer(self, blocks: Iterable[str]) -> None:
        """Write the whole answer at once, in pieces if it is long."""
        self.close()
        last = ""
        for block in blocks:
            text = clean(block)
            self._write(text)
            last = text or last
        if last and not last.endswith("\n"):
            self._write("\n")

    def ended(
        self, state: TaskState | None, task_id: str, *, context_id: str = "", reason: str = ""
    ) -> None:
        """Write the line about a task, or about an answer without one."""
        self.close()
        if state is not None:
            sign, colour, words = SIGNS[state]
            why = f": {one_line(reason)}" if reason else ""
            task = f"  task {one_line(task_id)}"
            self._print((f"{sign} {words}", colour), (why, ""), (task, "dim"))
        elif self.talks:
            context = f"  context {one_line(context_id)}" if context_id else ""
            self._print(("✓ answered", "green"), (context, "dim"))

    def hint(self, label: str, command: str) -> None:
        """Write a command to run next, on one line that can be copied."""
        self._print((f"  {label}", "dim"), (f" {command}", ""))

    def _heading(self, piece: TextPiece) -> None:
        """Write a heading above a text."""

    def _print(self, *pieces: tuple[str, str]) -> None:
        """Print a line of pieces with their styles on stderr."""
        print("".join(text for text, _ in pieces), file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def screen_for(*, output: Form, quiet: bool, verbose: bool, shows_stream: bool) -> PlainScreen:
    """`shows_stream`: the answer is written as it comes even in a pipe."""
    shows_text = output == "text" and (shows_stream or sys.stdout.isatty())
    if quiet or not (verbose or sys.stderr.isatty()):
        return PlainScreen(shows_text=shows_text)
    from trunkline.cli.remote.terminal import TerminalScreen

    return TerminalScreen(shows_text=shows_text)
