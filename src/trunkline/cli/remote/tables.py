"""Lists for people on a terminal, and as tab-separated lines in a pipe."""

import sys
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from trunkline.cli.remote.clean import one_line

_GAP: Final = 2
# A column that is narrower than this tells nothing.
_LEAST: Final = 8
_LABEL: Final = 11
_WIDE: Final = 100


def console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def is_narrow() -> bool:
    """Whether it is a terminal in which an id, a state and a whole time leave no room."""
    return sys.stdout.isatty() and console().width < _WIDE


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """What does not fit into the terminal is cut; in a pipe nothing is."""
    cleaned = [[one_line(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in cleaned:
            print("\t".join(row))
        return
    shown = console()
    for index, line in enumerate(aligned([list(heads), *cleaned], width=shown.width)):
        shown.print(Text(line, style="bold" if index == 0 else ""), soft_wrap=True)


def aligned(rows: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """Columns side by side. The first is whole; what is right of the edge is cut or left out."""
    lines, left = [""] * len(rows), width - 1
    for number, column in enumerate(zip(*rows, strict=True)):
        needed = max(map(cell_len, column))
        size = needed if number == 0 else min(needed, left)
        if size < min(needed, _LEAST):
            break
        lines = [
            line + set_cell_size(_cut(cell, size), size + _GAP)
            for line, cell in zip(lines, column, strict=True)
        ]
        left -= size + _GAP
    return [line.rstrip() for line in lines]


def _cut(cell: str, size: int) -> str:
    return cell if cell_len(cell) <= size else f"{set_cell_size(cell, size - 1).rstrip()}…"


def print_pairs(pairs: Sequence[tuple[str, str | Text]]) -> None:
    """Names and values; a value that is too long for the terminal goes on below itself."""
    shown, previous = console(), ""
    for name, value in pairs:
        text = Text(one_line(value)) if isinstance(value, str) else value
        room = max(_LEAST, shown.width - _LABEL) if shown.is_terminal else len(text) + 1
        for number, line in enumerate(text.wrap(shown, room)):
            line.rstrip()
            label = "" if number or name == previous else name
            shown.print(
                Text.assemble((f"{label:<{_LABEL}}", "bold"), line) if line else "", soft_wrap=True
            )
        previous = name
