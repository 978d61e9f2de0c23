"""A run as JSON: every sample, so that it can be read back and reported again."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.cases.case import Case
from bench.environment import Environment
from bench.figures import FIGURES
from bench.samples import Results
from bench.servers import Server


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


def read_json(path: Path) -> tuple[Results, Environment]:
    """An earlier run, as `write_json` left it."""
    content = json.loads(path.read_text())
    results = Results()
    for case, found in content["cases"].items():
        for server, measured in found["servers"].items():
            cell = results.cell(case, server)
            cell.samples.extend(measured["samples"])
            cell.problem = measured["problem"]
    return results, Environment(**content["environment"])
