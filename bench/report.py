"""A run as tables for people: rich where it is there, plain text where it is not."""

import sys
from collections.abc import Sequence

from bench.cases.case import Case
from bench.environment import Environment
from bench.figures import FIGURES, written
from bench.samples import Cell, Results
from bench.servers import Server

REFERENCE = "trunkline"


def print_tables(
    results: Results, cases: Sequence[Case], servers: Sequence[Server], environment: Environment
) -> None:
    for case in cases:
        head, *rows = table(results, case, servers, environment)
        if rows:
            _print_table(f"{case.title} (CPU and memory per {case.per})", head, rows)


def table(
    results: Results, case: Case, servers: Sequence[Server], environment: Environment
) -> list[list[str]]:
    """Head and one row per server: median, and the range of the headline figure over rounds."""
    cells = [(server, results.known(case.name, server.name)) for server in servers]
    present = [(server, cell) for server, cell in cells if cell is not None]
    keys = [key for key in FIGURES if any(cell.spread(key) for _, cell in present)]
    headline = FIGURES[case.headline].label
    others = [FIGURES[key].label for key in keys if key != case.headline]
    rows = [["server", "runtime", headline, "min–max", "× Trunkline", *others]]
    base = results.median(case.name, REFERENCE, case.headline)
    for server, cell in present:
        first = [server.title, environment.runtime(server)]
        rows.append(first + _figures(cell, case, keys, base))
    return rows


def _figures(cell: Cell, case: Case, keys: Sequence[str], base: float | None) -> list[str]:
    main = cell.spread(case.headline)
    if main is None:
        return [cell.problem or "–"]
    spread = f"{written(case.headline, main.low)}–{written(case.headline, main.high)}"
    ratio = f"{main.median / base:.1f}" if base else "–"
    row = [written(case.headline, main.median), spread, ratio]
    for key in keys:
        if key != case.headline:
            other = cell.spread(key)
            row.append(written(key, other.median) if other else "–")
    if cell.problem:
        row[0] += " (!)"
    return row


def _print_table(title: str, head: list[str], rows: list[list[str]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        _print_plain(title, head, rows)
        return
    shown = Table(title=title, title_justify="left", title_style="bold")
    for index, label in enumerate(head):
        shown.add_column(label, justify="left" if index < 2 else "right", no_wrap=index != 2)
    for row in rows:
        shown.add_row(*row)
    # A pipe has no width; the tables need about this much.
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(shown)


def _print_plain(title: str, head: list[str], rows: list[list[str]]) -> None:
    padded = [row + [""] * (len(head) - len(row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*padded, strict=True)]
    print(f"\n{title}")
    for row in padded:
        aligned = [
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(aligned).rstrip())
