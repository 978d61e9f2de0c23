"""What the hub adds to a send: a token, a grant, budgets, rates, the claim and two audit rows.

PYTHONPATH=src:. python -m bench.hub            # in the environment of ./check
PYTHONPATH=src:. python -m bench.hub --quick

The same agent is served three times: by a gateway without a hub to callers without a credential,
by the hub to such callers, and by the hub to a caller with a token. It runs as many turns at once
everywhere, and never more are asked for: a turn that waits in a queue costs one more commit. The
servers share one core and are measured in turns; the CPU is that of each server's process alone,
and the figure is the median of the rounds.
"""

import argparse
import json
import os
import statistics
import sys
import urllib.request
from dataclasses import replace
from typing import Any

from bench import cores
from bench.bridge import measure
from bench.cases.case import FULL, QUICK
from bench.cases.send import send_case
from bench.fleet import RESULTS, Fleet
from bench.servers import Server
from bench.target import Target

# The most that the hub gives an agent.
TURNS = 20
CASES = tuple([send_case(concurrency) for concurrency in (1, 8, TURNS)])
# Many short rounds, so that what else the machine does meets all three alike. All of them fit in
# the budget of a day.
FULL_SCALE = replace(FULL, rounds=8, requests=1_000, warm_up=100)
OPERATOR = "operator-key-of-the-benchmark"
AGENT = "bench/agent"
PATH = f"/api/a2a/v1/agents/{AGENT}"
HUB = f"""\
[hub]
[auth]
anonymous = "loopback"
[auth.keys.operator]
key = "{OPERATOR}"
"""
PLAIN = """\
[agents."{handle}"]
backend = {{ kind = "python", target = "{target}" }}
max_concurrency = {turns}
"""


def server(name: str, title: str, config: str) -> Server:
    file = RESULTS / f"{name}-{os.getpid()}.toml"
    file.write_text(config)
    return Server(
        name=name,
        title=title,
        module="trunkline",
        arguments=("serve", "--config", str(file)),
        path=PATH,
        health="/healthz",
        durable=True,
    )


def call(target: Target, path: str, body: dict[str, Any]) -> Any:
    """A request of the operator to the hub."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{target.process.port}/api/v1{path}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {OPERATOR}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def publish(target: Target, agent: str) -> None:
    owner, _, slug = AGENT.partition("/")
    call(
        target,
        "/agents",
        {
            "owner": owner,
            "slug": slug,
            "status": "published",
            "backend": {"kind": "python", "target": agent},
            "limits": {"dailyBudgetQueries": 100_000, "concurrencyCap": TURNS},
        },
    )


def with_token(target: Target) -> Target:
    """The same server, called with a token that was made for the agent."""
    token = call(target, "/tokens", {"name": "bench", "agents": [AGENT]})["token"]
    dialect = target.server.dialect
    headers = (*dialect.headers, ("Authorization", f"Bearer {token}"))
    called = replace(target.server, dialect=replace(dialect, headers=headers))
    return replace(target, server=called)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.hub")
    parser.add_argument("--quick", action="store_true", help="few calls, one round")
    parser.add_argument("--agent", default="ordinary", choices=("ordinary", "pure"))
    options = parser.parse_args()
    server_core, own_core = cores.split()
    os.sched_setaffinity(0, {own_core})
    RESULTS.mkdir(parents=True, exist_ok=True)
    agent = f"{RESULTS.parent}/agents.py:{options.agent}"
    plain = server("no-hub", "without a hub", PLAIN.format(handle=AGENT, target=agent, turns=TURNS))
    hub = server("hub", "with a hub", HUB)
    try:
        with Fleet(sys.executable, server_core) as fleet:
            by_hub = fleet.start(hub)
            publish(by_hub, agent)
            targets = {
                "no hub, anonymous": fleet.start(plain),
                "hub, anonymous": by_hub,
                "hub, token": with_token(by_hub),
            }
            figures = measure(targets, QUICK if options.quick else FULL_SCALE, CASES)
    finally:
        for each in (plain, hub):
            os.unlink(each.arguments[-1])
    for name, by_target in figures.items():
        medians = {who: statistics.median(all_of) for who, all_of in by_target.items()}
        shown = [f"{who} {cost:.0f} µs" for who, cost in medians.items()]
        plain_cost, hub_cost, token_cost = medians.values()
        print(
            f"CPU per send, {name}: {', '.join(shown)}; "
            f"a token costs {token_cost / hub_cost:.2f}× no credential at the hub, "
            f"and {token_cost / plain_cost:.2f}× no hub"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
