"""Agents that are programs, run for a turn or for a session."""

from typing import Annotated, Literal

from msgspec import Meta

from trunkline.settings.backends.program import ProgramSettings


class CommandBackend(
    ProgramSettings,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="command",
):
    """A program that gets the message and writes the answer."""

    format: Annotated[
        Literal["text", "claude", "codex"],
        Meta(
            description="`text`: the message on standard input, or where `command` has "
            "`{prompt}`; the answer on standard output. `claude`: Claude Code. `codex`: "
            "`codex exec`."
        ),
    ] = "text"
    session: Annotated[
        Literal["turn", "session"],
        Meta(
            description="A process for each turn, or one that is kept for the turns of a session. "
            "`text` needs `end_line` for that; `codex` cannot be kept."
        ),
    ] = "turn"
    end_line: Annotated[
        str,
        Meta(
            description="With `text` and a process that is kept: the line by which both sides end "
            "what they say."
        ),
    ] = ""
    files: Annotated[
        Literal["refuse", "folder"],
        Meta(
            description="Files that are no text: refuse the message, or put them into a private "
            "folder and name them in it. Text is always part of the message, and so are images "
            "and PDF for `claude`."
        ),
    ] = "refuse"
