"""A run for machines (JSON) and for the README."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.cases.case import Case
from bench.environment import Environment
from bench.figures import CPU_US, FIGURES, KB, P50_MS, PER_S, TIME_S, written
from bench.samples import Results
from bench.servers import Server

BEGIN, END = "<!-- results -->", "<!-- /results -->"
# Beside the headline of each case, the README shows these where a case has them.
README_FIGURES = (CPU_US, KB, PER_S, P50_MS, TIME_S)


def as_json(
    results: Results, cases: Sequence[Case], servers: Sequence[Server], environment: Environment
) -> dict[str, Any]:
    return {
        "environment": asdict(environment),
        "cases": {
            case.name: {
                "title": case.title,
                "per": case.per,
                "headline": case.headline,
                "servers": {
                    server.name: _cell(results, case, server, environment)
                    for server in servers
                    if results.known(case.name, server.name)
                },
            }
            for case in cases
        },
    }


def _cell(results: Results, case: Case, server: Server, environment: Environment) -> dict[str, Any]:
    cell = results.cell(case.name, server.name)
    spreads = {key: cell.spread(key) for key in FIGURES}
    return {
        "title": server.title,
        "runtime": environment.runtime(server),
        "durable": server.durable,
        "figures": {key: asdict(spread) for key, spread in spreads.items() if spread},
        "samples": [dict(sample) for sample in cell.samples],
        "problem": cell.problem,
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


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
    """One table: a row per figure, a column per server."""
    shown = [
        server
        for server in servers
        if any(results.median(case.name, server.name, case.headline) is not None for case in cases)
    ]
    versions = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    lines = [
        f"Measured {environment.date} on {environment.cpu}, {environment.cores} cores, "
        f"Linux {environment.kernel}: {versions}. Median over rounds.",
        "",
        "| | " + " | ".join(f"{s.title}<br>{environment.runtime(s)}" for s in shown) + " |",
        "|---|" + "---:|" * len(shown),
    ]
    for case in cases:
        for key in README_FIGURES:
            row = [results.median(case.name, server.name, key) for server in shown]
            if any(value is not None for value in row):
                cells = ["–" if value is None else written(key, value) for value in row]
                unit = (
                    f"{FIGURES[key].label} per {case.per}"
                    if key in (CPU_US, KB)
                    else FIGURES[key].label
                )
                lines.append(f"| {case.title}: {unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
