"""The results block of bench/README.md: a row per figure, a column per server.

What is measured on databases of two sizes has a table of its own.
"""

from collections.abc import Sequence
from pathlib import Path

from bench.cases.case import Case
from bench.environment import Environment
from bench.figures import COUNT, CPU_US, FIGURES, KB, P50_MS, PER_S, TIME_S, written
from bench.samples import Results
from bench.servers import STORED, Server

BEGIN, END = "<!-- results -->", "<!-- /results -->"
# The count only where a server that is too slow for all of it has done less.
SHOWN = (CPU_US, KB, PER_S, P50_MS, TIME_S, COUNT)
NOTHING = "–"


def update_readme(
    readme: Path,
    results: Results,
    cases: Sequence[Case],
    servers: Sequence[Server],
    environment: Environment,
) -> None:
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    block = markdown(results, cases, servers, environment)
    readme.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}")


def markdown(
    results: Results, cases: Sequence[Case], servers: Sequence[Server], environment: Environment
) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    about = (
        f"{environment.date}, {environment.cpu}, {environment.cores} cores, "
        f"Linux {environment.kernel}; {versions}. {environment.noise()} "
        "Medians over the rounds, with the range of the compared figure."
    )
    by_size = [case for case in cases if case.needs == STORED]
    others = [case for case in cases if case.needs != STORED]
    tables = [_table(results, some, servers, environment) for some in (others, by_size)]
    return "\n\n".join([about, *filter(None, tables)])


def _table(
    results: Results, cases: Sequence[Case], servers: Sequence[Server], environment: Environment
) -> str:
    shown = [
        server
        for server in servers
        if any(results.median(case.name, server.name, case.headline) is not None for case in cases)
    ]
    lines = [
        "| | " + " | ".join(f"{s.title}<br>{environment.runtime(s)}" for s in shown) + " |",
        "|---|" + "---:|" * len(shown),
    ]
    for case in cases:
        for key in SHOWN:
            if key == COUNT and not case.once:
                continue
            cells = [_cell(results, case, server, key) for server in shown]
            if any(cell != NOTHING for cell in cells):
                lines.append(f"| {case.title}: {_unit(case, key)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if shown else ""


def _cell(results: Results, case: Case, server: Server, key: str) -> str:
    known = results.known(case.name, server.name)
    spread = known.spread(key) if known else None
    if spread is None:
        return NOTHING
    median = written(key, spread.median)
    if key != case.headline or spread.low == spread.high:
        return median
    return f"{median}<br><sub>{written(key, spread.low)}–{written(key, spread.high)}</sub>"


def _unit(case: Case, key: str) -> str:
    label = FIGURES[key].label
    return f"{label} per {case.per}" if key in (CPU_US, KB) else label
