"""Rules of `kind = "command"`."""

from collections.abc import Iterator

from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.programs.rules import program_problems
from trunkline.config.problems import Path, Problem, shown

PLACEHOLDER = "{prompt}"


def command_problems(backend: CommandBackend, path: Path) -> Iterator[Problem]:
    yield from program_problems(backend, path)
    is_kept = backend.session == "session"
    if backend.format == "codex" and is_kept:
        yield Problem(
            path=(*path, "session"),
            value=shown(backend.session),
            what="codex exec ends with its answer, so it cannot be kept",
            remedy='Use session = "turn": the thread is resumed anyway.',
        )
    if backend.format == "text" and is_kept and not backend.end_line.strip():
        yield Problem(
            path=(*path, "end_line"),
            what="missing: without it nobody knows where an answer ends",
            remedy='Add a line that is in no answer, such as end_line = "--- end ---", or use '
            'session = "turn".',
        )
    if backend.end_line and (backend.format != "text" or not is_kept):
        yield Problem(
            path=(*path, "end_line"),
            value=shown(backend.end_line),
            what='only means something with format = "text" and session = "session"',
            remedy="Remove the key.",
        )
    elif "\n" in backend.end_line:
        yield Problem(
            path=(*path, "end_line"),
            value=shown(backend.end_line),
            what="expected one line",
            remedy='Example: end_line = "--- end ---".',
        )
    placed = [i for i, word in enumerate(backend.command) if PLACEHOLDER in word]
    if placed and (backend.format != "text" or is_kept or placed[0] == 0):
        yield Problem(
            path=(*path, "command", placed[0]),
            value=shown(backend.command[placed[0]]),
            what=f"{PLACEHOLDER} can only stand in an argument, with text and a process per turn",
            remedy="Remove it: the message comes on standard input.",
        )
