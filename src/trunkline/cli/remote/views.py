"""Two ways to show a conversation: to people, and to programs."""

import sys
from typing import TypeAlias

from trunkline.cli.options import Form
from trunkline.cli.remote.documents import line, wrapped
from trunkline.cli.remote.plain import PlainScreen
from trunkline.cli.remote.telling import Answer, Made, Moved, Telling
from trunkline.model.values import Task
from trunkline.remote import StreamItem


class TextView:
    def __init__(
        self, screen: PlainScreen, *, waiting_for: str, before: Task | None = None
    ) -> None:
        self.screen = screen
        # The answer, unless the screen shows it as it comes.
        self.answer = None if screen.shows_text else Answer()
        # Why the task ended without being done.
        self.reason = ""
        # How many files came along.
        self.files = 0
        self._telling = Telling(before)
        self._waiting_for = waiting_for

    def item(self, item: StreamItem) -> None:
        for said in self._telling.add(item):
            if isinstance(said, Moved):
                self.reason = said.reason
            elif isinstance(said, Made):
                self.files += said.part.raw is not None
            if self.answer is not None:
                self.answer.add(said)
            self.screen.show(said)

    def wait(self) -> None:
        self.screen.wait(self._waiting_for)


class JsonView:
    """`prints`: each item as a line when it comes."""

    def __init__(self, screen: PlainScreen, *, prints: bool) -> None:
        self.reason = ""
        self._screen = screen
        self._prints = prints

    def item(self, item: StreamItem) -> None:
        if self._prints:
            self._screen.close()
            print(line(wrapped(item)), flush=True)

    def wait(self) -> None:
        pass


AnyView: TypeAlias = TextView | JsonView


def screen_for(
    *, output: Form, quiet: bool, verbose: bool = False, shows_stream: bool = False
) -> PlainScreen:
    """`shows_stream`: the answer is written as it comes also where nobody watches."""
    shows_text = output is Form.text and (shows_stream or sys.stdout.isatty())
    if quiet or not (verbose or sys.stderr.isatty()):
        return PlainScreen(shows_text=shows_text)
    from trunkline.cli.remote.screen import Screen

    return Screen(shows_text=shows_text)


def view_for(
    screen: PlainScreen, *, output: Form, prints: bool, waiting_for: str, before: Task | None = None
) -> AnyView:
    if output is Form.json:
        return JsonView(screen, prints=prints)
    return TextView(screen, waiting_for=waiting_for, before=before)
