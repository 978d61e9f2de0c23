"""Rules of `kind = "command"`."""

from collections.abc import Iterator

from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.programs.settings import program_problems
from trunkline.config.problems import Path, Problem, bad_value

PLACEHOLDER = "{prompt}"


def command_problems(backend: CommandBackend, path: Path) -> Iterator[Problem]:
    yield from program_problems(backend, path)
    is_kept = backend.session == "session"
    if backend.format == "codex" and is_kept:
        yield bad_value(
            (*path, "session"),
            "codex exec ends with its answer, so it cannot be kept",
            'Use session = "turn": the thread is resumed anyway.',
        )
    if backend.format == "text" and is_kept and not backend.end_line.strip():
        yield Problem(
            (*path, "end_line"),
            "missing: without it nobody knows where an answer ends",
            'Add a line that is in no answer, such as end_line = "--- end ---", or use '
            'session = "turn".',
        )
    if backend.end_line and (backend.format != "text" or not is_kept):
        yield bad_value(
            (*path, "end_line"),
            'only means something with format = "text" and session = "session"',
            "Remove the key.",
        )
    elif "\n" in backend.end_line:
        yield bad_value(
            (*path, "end_line"), "expected one line", 'Example: end_line = "--- end ---".'
        )
    placed = [i for i, word in enumerate(backend.command) if PLACEHOLDER in word]
    if placed and (backend.format != "text" or is_kept or placed[0] == 0):
        yield bad_value(
            (*path, "command", placed[0]),
            f"{PLACEHOLDER} can only stand in an argument, with text and a process per turn",
            "Remove it: the message comes on standard input.",
        )
