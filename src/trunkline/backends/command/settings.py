"""Settings of `kind = "command"`."""

from typing import Annotated, Literal

from trunkline.backends.programs.settings import ProgramSettings
from trunkline.config import doc


class CommandBackend(ProgramSettings, frozen=True, kw_only=True, tag="command"):
    """A program that gets the message and writes the answer."""

    format: Annotated[
        Literal["text", "claude", "codex"],
        doc(
            "`text`: the message on standard input, or in place of `{prompt}` in `command`; the "
            "answer on standard output. `claude`: Claude Code. `codex`: `codex exec`."
        ),
    ] = "text"
    session: Annotated[
        Literal["turn", "session"],
        doc(
            "`turn`: a process for each turn. `session`: one process for all turns of a session; "
            "`text` then needs `end_line`, and `codex` does not support it."
        ),
    ] = "turn"
    end_line: Annotated[
        str,
        doc(
            'With `text` and `session = "session"`: the line that ends each message and each '
            "answer."
        ),
    ] = ""
    files: Annotated[
        Literal["refuse", "folder"],
        doc(
            "Binary files in a message: refuse the message, or save them in a private folder and "
            "name them in the prompt. Text is always part of the prompt, and so are images and "
            "PDF for `claude`."
        ),
    ] = "refuse"
