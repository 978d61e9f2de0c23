"""A conversation on a terminal: the answer on stdout, all that leads to it on stderr."""

from typing import Any

import msgspec
from msgspec import UNSET
from rich.console import Console
from rich.text import Text

from trunkline.cli.remote.clean import clean, one_line
from trunkline.cli.remote.content import size
from trunkline.cli.remote.documents import document
from trunkline.cli.remote.plain import PlainScreen
from trunkline.cli.remote.spinner import Waiting
from trunkline.cli.remote.telling import Made, Moved, Noted, Said, Words
from trunkline.cli.remote.tools import ToolUse
from trunkline.clock import SystemClock

# More of a JSON value than this is not worth the screen; `-o json` and --save have it all.
_DATA_LINES = 20
# Names that say no more than that it is the answer.
_PLAIN_NAMES = frozenset({"", "answer", "response", "result", "output", "message"})


class Screen(PlainScreen):
    talks = True

    def __init__(self, *, shows_text: bool) -> None:
        super().__init__(shows_text=shows_text)
        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._waiting = Waiting(self._console, SystemClock())
        self._can_spin = self._console.is_terminal and not self._console.is_dumb_terminal
        # The text that had the last heading.
        self._headed: str | None = None

    def wait(self, text: str) -> None:
        # Not while words are being written.
        if self._can_spin and not self._is_line_open:
            self._waiting.start(text)

    def close(self) -> None:
        self._waiting.stop()
        super().close()

    def show(self, said: Said) -> None:
        self._waiting.stop()
        match said:
            case Words():
                super().show(said)
            case ToolUse():
                self._line(_tool_line(said, self._console.width))
            case Made():
                self._made(said)
            case Noted():
                self._line(Text(f"· {clean(said.text)}", style="dim"))
            case Moved():
                pass

    def _heading(self, words: Words) -> None:
        name = one_line(words.name)
        if words.replaces:
            self._print(Text("(replaces the text above)", style="dim"))
        elif words.place != self._headed and name not in _PLAIN_NAMES:
            self._print(Text(f"▪ {name}", style="bold"))
        self._headed = words.place

    def _made(self, made: Made) -> None:
        part, name = made.part, one_line(made.name)
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
        self._print(text)

    def _tell(self, *pieces: tuple[str, str]) -> None:
        self._print(Text.assemble(*pieces))

    def _print(self, text: Text) -> None:
        # The terminal breaks lines itself, so that they can be copied.
        self._console.print(text, soft_wrap=True)


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
    """On the same line if it fits there, else below, as much as is worth it."""
    text = _compact(value)
    if len(text) <= width:
        return f"  {text}"
    lines = clean(document(value)).splitlines()
    if len(lines) > _DATA_LINES:
        lines = [*lines[: _DATA_LINES - 1], f"… {len(lines) - _DATA_LINES + 1} more lines"]
    return "".join(f"\n  {line}" for line in lines)
