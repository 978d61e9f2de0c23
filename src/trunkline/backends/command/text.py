"""Plain text: the message on standard input or in an argument, the answer on standard output."""

from collections.abc import Iterable, Iterator

from trunkline.backends.command.format import Format, Reader, Start
from trunkline.backends.command.rules import PLACEHOLDER
from trunkline.backends.programs import failures
from trunkline.backends.programs.output_lines import Utf8
from trunkline.backends.programs.prompt import CannotTell, Prompt
from trunkline.model.outputs import Failed, Final, Output, Text

# Linux takes 128 KiB for one argument.
MAX_ARGUMENT_BYTES = 100_000


class TextFormat(Format):
    """With `end_line`, that line ends each message and each answer, and the program continues
    with the next message. Without it, the program ends with its answer.
    """

    has_memory = False

    def __init__(self, argv: tuple[str, ...], *, end_line: str = "") -> None:
        self._end_line = end_line
        self._in_argument = any(PLACEHOLDER in word for word in argv)
        self.has_lines = bool(end_line)
        self.reads_once = not end_line

    def arguments(self, argv: tuple[str, ...], start: Start) -> tuple[str, ...]:
        text = start.prompt.text.replace("\0", "")
        if self._in_argument and len(text.encode()) > MAX_ARGUMENT_BYTES:
            raise CannotTell(
                f"The message is too long for this agent, which takes {MAX_ARGUMENT_BYTES} bytes."
            )
        return tuple(_filled(argv[i], argv[i - 1], text) for i in range(1, len(argv)))

    def message(self, prompt: Prompt) -> bytes:
        if self._in_argument:
            return b""
        if not self._end_line:
            return prompt.text.encode()
        lines = prompt.text.splitlines()
        if self._end_line in lines:
            raise CannotTell("The message holds a line that this agent takes for its end.")
        return "\n".join([*lines, self._end_line, ""]).encode()

    def reader(self) -> Reader:
        return _Whole() if not self._end_line else _UntilLine(self._end_line)


def _filled(word: str, before: str, text: str) -> str:
    # The blank keeps a program from taking the message for an option.
    is_option = word.startswith(PLACEHOLDER) and text.startswith("-") and before != "--"
    return word.replace(PLACEHOLDER, f" {text}" if is_option else text)


class _Whole(Reader):
    """The whole output of the program is the answer."""

    def __init__(self) -> None:
        self._utf8 = Utf8()

    def feed(self, data: bytes) -> Iterator[Output]:
        if text := self._utf8.feed(data):
            yield Text(text)

    def end(self, code: int) -> Iterable[Output]:
        if text := self._utf8.end():
            yield Text(text)
        yield Final() if code == 0 else Failed(failures.exited(code))


class _UntilLine(Reader):
    """The answer ends with a line that says so."""

    def __init__(self, end_line: str) -> None:
        self._end_line = end_line
        self._is_first = True

    def feed(self, data: bytes) -> Iterator[Output]:
        line = data.decode(errors="replace")
        if line == self._end_line:
            self.is_done = True
            yield Final()
            return
        yield Text(line if self._is_first else f"\n{line}")
        self._is_first = False
