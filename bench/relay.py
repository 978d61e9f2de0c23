"""What a relay adds to a send and to a streamed event, and what an idle attached agent holds there.

PYTHONPATH=src:. python -m bench.relay            # in the environment of ./check
PYTHONPATH=src:. python -m bench.relay --quick

The same agent is served by one gateway and called directly, and by another one and called through a
relay, over a WebSocket and over a long poll. The servers share one core and are measured in turns;
figures are CPU of each process, medians of the rounds. The exit code is 1 when 1,000 idle agents
take more than 50 MB in the relay.
"""

import argparse
import asyncio
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import cores
from bench.bridge import measure
from bench.cases.case import FULL, QUICK, Case
from bench.cases.send import send_case
from bench.cases.stream import long_case
from bench.process import Process, free_port
from bench.servers import ROOT, Server
from bench.target import Target
from trunkline.clock import SystemClock
from trunkline.relay.hosts.host import Host, HostSettings
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.hosts.transports import Transport, Transports

AGENTS = 1000
LIMIT_MB = 50.0
# Longer than the heartbeat.
IDLE_S = 25.0
SENDS = (1, 32)
EVENTS = 200
CASES: Sequence[Case] = (*map(send_case, SENDS), long_case(EVENTS))
FULL_SCALE = replace(FULL, rounds=7, requests=1_500, warm_up=100)
KEY, TOKEN = "the-key-of-the-benchmark", "the-token-of-the-hosts"
RELAY = f"""\
[store]
kind = "memory"
[relay_server]
[auth.keys.bench]
key = "{KEY}"
[auth.keys.hosts]
key = "{TOKEN}"
attach = ["bench/*"]
"""
AGENT = f"""\
[auth.keys.bench]
key = "{KEY}"
[agents."bench/agent"]
default = true
max_concurrency = 64
backend = {{{{ kind = "python", target = "{ROOT}/bench/agents.py:ordinary" }}}}
"""
ATTACHED = f"""\
[relay]
url = "ws://127.0.0.1:{{relay}}/agent"
tenant = "bench"
agent_id = "{{name}}"
token = "{TOKEN}"
mode = "relay"
transport = "{{name}}"
"""
CARD = b"""{"name":"Idle","description":"An agent that waits","version":"1.0.0",\
"supportedInterfaces":[{"url":"https://relay.example/t/bench/a2a/idle","protocolBinding":\
"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true},"defaultInputModes":\
["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"wait","name":"Wait",\
"description":"Waits","tags":["idle"]}]}"""
# The names of the agents at the relay are those of the transports.
TRANSPORTS: Sequence[Transport] = ("websocket", "long-poll")


class Fleet:
    """The processes of this benchmark, which end with it."""

    def __init__(self, folder: Path, core: int) -> None:
        self._folder = folder
        self._core = core
        self.ending = ExitStack()

    def start(self, name: str, config: str, *, health: str = "/healthz") -> Process:
        folder = self._folder / name
        folder.mkdir()
        (folder / "trunkline.toml").write_text(config)
        port = free_port()
        options = ("--config", str(folder / "trunkline.toml"), "--data", str(folder / "data"))
        process = Process(
            [sys.executable, "-m", "trunkline", "serve", *options, "--port", str(port)],
            port=port,
            env={"PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))},
            log=folder / "log",
            core=self._core,
            cwd=folder,
        )
        self.ending.callback(process.stop)
        process.wait_until_up(health)
        return process


class Elsewhere(Process):
    """A process that takes the requests, while the CPU of another one is measured."""

    def __init__(self, front: Process, measured: Process) -> None:
        self.port = front.port
        self._measured = measured

    def cpu_s(self) -> float:
        return self._measured.cpu_s()

    def rss_bytes(self) -> int:
        return self._measured.rss_bytes()


def target(process: Process, path: str) -> Target:
    server = Server(name=path, title=path, path=path)
    headers = (*server.dialect.headers, ("Authorization", f"Bearer {KEY}"))
    return Target(
        server=replace(server, dialect=replace(server.dialect, headers=headers)), process=process
    )


@dataclass(frozen=True, slots=True)
class Paths:
    """The median CPU µs of one case at each process."""

    direct: float
    relay: float
    host: float

    def line(self) -> str:
        def share(cost: float) -> str:
            return f"{cost:.1f} µs ({cost / self.direct:.2f}×)"

        total = self.relay + self.host
        return (
            f"direct {self.direct:.1f} µs; relay {share(self.relay)}, host {share(self.host)}; "
            f"together {share(total)}, added {total - self.direct:.1f} µs"
        )


def relayed_costs(fleet: Fleet, *, is_quick: bool) -> None:
    relay = fleet.start("relay", RELAY)
    targets = {"direct": target(fleet.start("direct", AGENT.format()), "/a2a/jsonrpc")}
    for name in TRANSPORTS:
        config = AGENT.format() + ATTACHED.format(relay=relay.port, name=name)
        host = fleet.start(name, config, health="/readyz")
        path = f"/t/bench/a2a/{name}"
        targets[f"{name} relay"] = target(relay, path)
        targets[f"{name} host"] = target(Elsewhere(relay, host), path)
    figures = measure(targets, QUICK if is_quick else FULL_SCALE, CASES)
    for case in CASES:
        medians = {who: statistics.median(all_of) for who, all_of in figures[case.name].items()}
        for name in TRANSPORTS:
            paths = Paths(medians["direct"], medians[f"{name} relay"], medians[f"{name} host"])
            print(f"{case.title}, {name}, CPU per {case.per}: {paths.line()}", flush=True)


# Idle agents.


async def idle_agents(relay: Process, transport: Transport, count: int) -> tuple[float, float]:
    """The bytes that each holds in the relay, and the share of a core that all of them take."""
    clock = SystemClock()
    transports = Transports(transport, clock=clock)

    async def token() -> str:
        return TOKEN

    async def app(scope: Any, receive: Any, send: Any) -> None:
        # The relay reads the card of each agent, and nothing else.
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(CARD))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": CARD})

    hosts = [
        Host(
            HostSettings(
                url=f"ws://127.0.0.1:{relay.port}/agent",
                agents={f"bench/{transport}-{number}": "bench/agent"},
            ),
            app=app,
            callers=RelayedCallers(),
            token=token,
            clock=clock,
            dial=transports.dial,
        )
        for number in range(count + 1)
    ]
    try:
        # The first one loads what is loaded once.
        await attached(hosts[:1])
        before = relay.rss_bytes()
        for start in range(1, count + 1, 50):
            await attached(hosts[start : start + 50])
        # A heartbeat and its answer.
        await asyncio.sleep(IDLE_S)
        used_s = relay.cpu_s()
        await asyncio.sleep(IDLE_S)
        return (relay.rss_bytes() - before) / count, (relay.cpu_s() - used_s) / IDLE_S
    finally:
        await asyncio.gather(*(host.close() for host in hosts))
        await transports.close()


async def attached(hosts: Sequence[Host]) -> None:
    for host in hosts:
        host.start()
    ends_at = asyncio.get_running_loop().time() + 60
    while not all(host.attached_agents for host in hosts):
        if asyncio.get_running_loop().time() > ends_at:
            raise SystemExit(f"not attached: {hosts[0].trouble or 'no answer'}")
        await asyncio.sleep(0.05)


def measure_idle(fleet: Fleet, *, count: int) -> bool:
    """Whether a WebSocket takes little enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    is_small = True
    try:
        for transport in TRANSPORTS:
            relay = fleet.start(f"idle-{transport}", RELAY)
            each, busy = asyncio.run(idle_agents(relay, transport, count))
            print(
                f"idle agents, {transport}: {each / 1e3:.1f} KB each, "
                f"{each * AGENTS / 1e6:.1f} MB for {AGENTS}; {count} of them take "
                f"{busy * 100:.1f} % of a core",
                flush=True,
            )
            is_small = is_small and (transport != "websocket" or each * AGENTS <= LIMIT_MB * 1e6)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return is_small


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.relay")
    parser.add_argument("--quick", action="store_true", help="few calls, one round, few agents")
    parser.add_argument("--only", choices=("costs", "idle"), help="one of the two parts")
    options = parser.parse_args()
    server_core, own_core = cores.split()
    os.sched_setaffinity(0, {own_core})
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), server_core)
        with fleet.ending:
            if options.only != "idle":
                relayed_costs(fleet, is_quick=options.quick)
            if options.only != "costs" and not measure_idle(
                fleet, count=100 if options.quick else AGENTS
            ):
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
