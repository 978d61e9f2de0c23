"""What the gateway adds in front of an agent on a2a-sdk: its own CPU per send and per event.

bench/.venv/bin/python -m bench.bridge            # after bench/run has made that environment
bench/.venv/bin/python -m bench.bridge --quick

Both servers share one core, so times say little; the CPU is that of the gateway's process alone.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Collection

from bench import cores
from bench.cases import CASES
from bench.cases.case import FULL, QUICK, Case, Scale
from bench.figures import CPU_US
from bench.fleet import RESULTS, Fleet
from bench.servers import SERVERS, Server
from bench.target import Target

# Cases, and what each figure of theirs is about.
MEASURED = {"send-32": "send", "stream-10": "stream of 10 events", "long-200": "event"}


def gateway(url: str) -> Server:
    file = RESULTS / f"bridge-{os.getpid()}.toml"
    file.write_text(f'[agents."bench/bridge"]\nbackend = {{ kind = "a2a", url = "{url}" }}\n')
    return Server(
        name="bridge",
        title="Trunkline in front of a2a-sdk",
        module="trunkline",
        arguments=("serve", "--config", str(file)),
        path="/a2a/jsonrpc",
        health="/healthz",
        durable=True,
    )


def measure(
    targets: dict[str, Target], scale: Scale, cases: Collection[Case]
) -> dict[str, dict[str, list[float]]]:
    """The CPU of each case at each target, measured in turns."""
    figures: dict[str, dict[str, list[float]]] = {}
    for number in range(scale.rounds + 1):
        for case in cases:
            for name, target in targets.items():
                figure = case.run(target, scale)[CPU_US]
                if number:  # the first round warms up
                    figures.setdefault(case.name, {}).setdefault(name, []).append(figure)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.bridge")
    parser.add_argument("--quick", action="store_true", help="few calls, one round")
    options = parser.parse_args()
    server_core, own_core = cores.split()
    os.sched_setaffinity(0, {own_core})
    by_name = {server.name: server for server in SERVERS}
    with Fleet(sys.executable, server_core) as fleet:
        upstream = fleet.start(by_name["a2a-sdk"])
        bridge = gateway(f"http://127.0.0.1:{upstream.process.port}")
        try:
            targets = {
                "the gateway before it": fleet.start(bridge),
                "a2a-sdk alone": upstream,
                "the gateway, own agent": fleet.start(by_name["trunkline"]),
            }
            cases = [case for case in CASES if case.name in MEASURED]
            figures = measure(targets, QUICK if options.quick else FULL, cases)
        finally:
            os.unlink(bridge.arguments[-1])
    for name, by_target in figures.items():
        shown = [f"{who} {statistics.median(all_of):.0f} µs" for who, all_of in by_target.items()]
        print(f"CPU per {MEASURED[name]}: {', '.join(shown)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
