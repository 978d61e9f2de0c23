"""The command line of the benchmark; `bench/run` prepares its environment and starts it."""

import argparse
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench import cores
from bench.cases import CASES
from bench.cases.case import FULL, QUICK, Case, Scale
from bench.earlier import checked_out
from bench.environment import Environment, examine
from bench.export import as_json, read_json, write_json
from bench.fleet import Fleet
from bench.others import Others
from bench.readme import update_readme
from bench.report import print_tables
from bench.rounds import Run, say
from bench.samples import Results
from bench.servers import ROOT, SERVERS, Server, earlier_servers, stored_servers


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run", description="Compare Trunkline with its peers in one run."
    )
    names = ", ".join(case.name for case in CASES)
    add = parser.add_argument
    add("--quick", action="store_true", help="few requests, one round: does everything work?")
    add("--only", metavar="CASE,…", help=f"these cases, or all that begin so: {names}")
    peers = ", ".join(server.name for server in SERVERS)
    add("--peers", metavar="NAME,…", help=f"these servers: {peers}")
    add("--against", metavar="COMMIT", help="also measure Trunkline as of that commit")
    add("--rounds", type=int, metavar="N", help="rounds (3, with --quick 1)")
    add("--python", default=sys.executable, metavar="PATH", help="interpreter for the servers")
    add("--json", type=Path, metavar="FILE", help="also write every sample to FILE")
    add("--from-json", type=Path, metavar="FILE", help="measure nothing, report that run again")
    add("--update-readme", action="store_true", help="put the results into bench/README.md")
    return parser.parse_args()


def chosen_cases(only: str | None, scale: Scale) -> list[Case]:
    wanted = only.split(",") if only else [""]
    for name in wanted:
        if not any(case.name.startswith(name) for case in CASES):
            raise SystemExit(f"bench: no case {name!r}")
    return [
        replace(case, title=case.title.format(scale=scale))
        for case in CASES
        if case.name.startswith(tuple(wanted))
    ]


def chosen_servers(
    peers: str | None, scale: Scale, earlier: tuple[Server, ...] = ()
) -> list[Server]:
    known = {server.name: server for server in SERVERS}
    names = peers.split(",") if peers else list(known)
    for name in names:
        if name not in known:
            raise SystemExit(f"bench: no server {name!r}")
    present = list(earlier)
    for server in (known[name] for name in names):
        if server.is_there():
            present.append(server)
        else:
            say(f"left out, not installed: {server.name}")
    if any(server.name == "trunkline" for server in present):
        present.extend(stored_servers(scale.stored_tasks))
    if not present:
        raise SystemExit("bench: no server to measure")
    return present


def main() -> int:
    options = arguments()
    scale = QUICK if options.quick else FULL
    if options.rounds:
        scale = replace(scale, rounds=options.rounds)
    cases = chosen_cases(options.only, scale)
    interrupted = False

    def report(results: Results, environment: Environment) -> None:
        print_tables(results, cases, servers, environment)
        if options.json:
            write_json(options.json, as_json(results, cases, servers, environment))
        if options.update_readme:
            update_readme(ROOT / "bench" / "README.md", results, cases, servers, environment)

    if options.from_json:
        results, environment = read_json(options.from_json)
        servers = [*SERVERS, *stored_servers(scale.stored_tasks)]
    else:
        with ExitStack() as stack:
            earlier: tuple[Server, ...] = ()
            if options.against:
                earlier = earlier_servers(*stack.enter_context(checked_out(options.against)))
            servers = chosen_servers(options.peers, scale, earlier)
            results, environment, interrupted = measure(
                options.python, scale, cases, servers, report
            )
    report(results, environment)
    say(environment.noise())
    problems = results.problems()
    for problem in problems:
        say(f"problem: {problem}")
    return 130 if interrupted else 1 if problems else 0


def measure(
    python: str,
    scale: Scale,
    cases: list[Case],
    servers: list[Server],
    report: Callable[[Results, Environment], None],
) -> tuple[Results, Environment, bool]:
    """What was found, where, and whether somebody stopped it before the end.

    Every round is reported when it is over, so a run that is cut off loses only its last.
    """
    environment = examine(python)
    server_core, load_core = cores.split()
    os.sched_setaffinity(0, {load_core})
    raise_open_files()
    gc.disable()  # a pause of the generator would be measured as one of the server
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave through Fleet, as Ctrl-C does
    results = Results()
    others = Others()
    interrupted = False
    try:
        with Fleet(python, server_core) as fleet:
            run = Run(fleet, python, scale, results)
            run.measure(cases, servers, between_rounds=lambda: report(results, environment))
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted: what was measured so far")
    return results, replace(environment, others=others.cores()), interrupted


def raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
