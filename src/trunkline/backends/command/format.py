"""`Format`: the input and the output of one kind of program. No I/O."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from msgspec import Struct

from trunkline.backends.programs import failures
from trunkline.backends.programs.prompt import File, Prompt
from trunkline.model.outputs import Failed, Output


class Start(Struct, frozen=True, kw_only=True):
    """The input of a program that starts."""

    prompt: Prompt
    # The lasting name of the session, see `session_id`.
    session_id: str
    # The name that the program gave to the session in an earlier turn; empty in the first.
    known: str = ""
    # A folder with files for the program, if there are any.
    folder: str = ""
    # The address of its tools over MCP; empty where it has none.
    mcp_url: str = ""


class Reader(ABC):
    """Reads one answer of the program from its output."""

    # The name that the program gives to the session, as soon as it is known.
    known = ""
    # The answer is complete, whether or not the program goes on.
    is_done = False
    # For the log: the program's own description of a failure.
    trouble = ""

    @abstractmethod
    def feed(self, data: bytes) -> Iterable[Output]:
        """A line, or where `Format.has_lines` is false a piece of any length."""

    def end(self, code: int) -> Iterable[Output]:
        """The program ended with that exit code before the answer was complete."""
        yield Failed(failures.ended(code))


class Format(ABC):
    # The output consists of lines.
    has_lines = True
    # The program reads one message only, so its input is closed after that.
    reads_once = True
    # The program remembers earlier turns.
    has_memory = True

    @abstractmethod
    def arguments(self, argv: tuple[str, ...], start: Start) -> tuple[str, ...]:
        """The command line, without the program itself. `argv` is the operator's."""

    def takes(self, file: File) -> bool:
        """Whether a file goes into the message as it is."""
        return False

    @abstractmethod
    def message(self, prompt: Prompt) -> bytes:
        """For the input of the program. Raises CannotTell."""

    def interrupt(self) -> bytes:
        """The input that ends the answer but not the program; empty where there is none."""
        return b""

    @abstractmethod
    def reader(self) -> Reader: ...

    def try_again(self, start: Start, reader: Reader, errors: str) -> str | None:
        """The value of `known` for another start; None when that would not help."""
        return None


def missing(argv: tuple[str, ...], options: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The options that the operator has not written already."""
    return tuple(word for option in options if option[0] not in argv for word in option)
