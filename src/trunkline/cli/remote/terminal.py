"""`TerminalScreen`: the answer on stdout, and on stderr everything that leads to it."""

from typing import Any

import msgspec
from msgspec import UNSET
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from trunkline.cli.output import clean, json_document, one_line
from trunkline.cli.remote.events import Attachment, Display, Note, StateChange, TextPiece, ToolUse
from trunkline.cli.remote.files import size
from trunkline.cli.remote.screen import PlainScreen
from trunkline.clock import SystemClock

# A longer JSON value is not worth the screen; `-o json` and --save have all of it.
_DATA_LINES = 20
# Names that only say that the text is the answer.
_PLAIN_NAMES = frozenset({"", "answer", "response", "result", "output", "message"})


class TerminalScreen(PlainScreen):
    talks = True

    def __init__(self, *, shows_text: bool) -> None:
        super().__init__(shows_text=shows_text)
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._can_spin = self._console.is_terminal and not self._console.is_dumb_terminal
        self._spinner: Live | None = None
        self._waiting_for = ""
        # The text that had the last heading.
        self._headed: str | None = None

    def wait(self, text: str) -> None:
        self._waiting_for = text
        # A spinner would overwrite the line of the answer that is being written.
        if not self._can_spin or self._is_line_open or self._spinner is not None:
            return
        clock, dots = SystemClock(), Spinner("dots", style="cyan")
        since = clock.monotonic()

        def frame() -> Spinner:
            seconds = int(clock.monotonic() - since)
            text = Text(self._waiting_for, style="dim", no_wrap=True, overflow="ellipsis")
            if seconds >= 2:
                text.append(f" {seconds} s")
            dots.update(text=text)
            return dots

        self._spinner = Live(
            get_renderable=frame,
            console=self._console,
            transient=True,
            refresh_per_second=10,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._spinner.start()

    def _stop_spinner(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    def close(self) -> None:
        self._stop_spinner()
        super().close()

    def show(self, event: Display) -> None:
        self._stop_spinner()
        match event:
            case TextPiece():
                super().show(event)
            case ToolUse():
                self._line(_tool_line(event, self._console.width))
            case Attachment():
                self._attachment(event)
            case Note():
                self._line(Text(f"· {clean(event.text)}", style="dim"))
            case StateChange():
                pass

    def _heading(self, piece: TextPiece) -> None:
        name = one_line(piece.name)
        if piece.replaces:
            self._print(("(replaces the text above)", "dim"))
        elif piece.place != self._headed and name not in _PLAIN_NAMES:
            self._print((f"▪ {name}", "bold"))
        self._headed = piece.place

    def _attachment(self, attachment: Attachment) -> None:
        part, name = attachment.part, one_line(attachment.name)
        if part.url is not None:
            self._line(Text(f"▪ {name}: {one_line(part.url)}".replace("▪ : ", "▪ ")))
        elif part.raw is not None:
            about = ", ".join(filter(None, [one_line(part.media_type), size(len(part.raw))]))
            self._line(Text(f"▪ {name or 'a file'} ({about})"))
        elif part.data is not UNSET:
            text = Text(f"▪ {name or 'data'}")
            text.append(_data(part.data, self._console.width - len(name) - 6), style="dim")
            self._line(text)

    def _line(self, text: Text) -> None:
        self.close()
        self._console.print(text, soft_wrap=True)

    def _print(self, *pieces: tuple[str, str]) -> None:
        # The terminal breaks lines itself, so that they can be copied.
        self._console.print(Text.assemble(*pieces), soft_wrap=True)


def _tool_line(tool: ToolUse, width: int) -> Text:
    sign, style = ("→", "cyan") if tool.phase != "result" else ("←", "dim")
    if tool.is_error:
        sign, style = "✗", "red"
    text = Text(f"{sign} {one_line(tool.name)}", style=style)
    if tool.data is not None:
        text.append(f"  {_compact(tool.data)}", style="dim")
    text.truncate(max(20, width - 1), overflow="ellipsis")
    return text


def _compact(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return one_line(text)


def _data(value: Any, width: int) -> str:
    """The value on the same line if it fits there, else its first lines below."""
    text = _compact(value)
    if len(text) <= width:
        return f"  {text}"
    lines = clean(json_document(value)).splitlines()
    if len(lines) > _DATA_LINES:
        lines = [*lines[: _DATA_LINES - 1], f"… {len(lines) - _DATA_LINES + 1} more lines"]
    return "".join(f"\n  {line}" for line in lines)
