"""Small sends beside something large: with and without it, in one run.

bench/.venv/bin/python -m bench.disturbed            # after bench/run has made that environment
bench/.venv/bin/python -m bench.disturbed --quick
bench/.venv/bin/python -m bench.disturbed --only crowd,replay

`crowd`      10,000 subscribers of one task, an event for each of them every second, heartbeats
`replay`     a client that reads a journal of 20,000 events from its start, again and again
`retention`  10⁶ tasks that have expired and are being deleted

The disturbance comes from a process of its own with the lowest priority, so that reading 10,000
streams does not delay the clock of the sends.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import cores
from bench.calls import Fixed, Send
from bench.client import Client, Outcome, ServerGone
from bench.exchange import FIRST_NUMBER, Prepared
from bench.fill import filled
from bench.fleet import RESULTS, Fleet
from bench.main import raise_open_files
from bench.servers import TASKS, Server, trunkline
from bench.target import Target, WrongAnswers, expect_right

# For the throughput so many at a time; for the delays one every 4 ms, whatever comes back.
CONNECTIONS = 8
EVERY_S = 0.004
POOL = 256
HEARTBEAT_S = 5.0
RETENTION_S = 30.0
# The gateway sweeps once a minute.
SWEEPS_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Scale:
    window_s: float
    subscribers: int
    events: int
    stored: int


FULL = Scale(window_s=20, subscribers=10_000, events=20_000, stored=1_000_000)
QUICK = Scale(window_s=4, subscribers=500, events=2_000, stored=20_000)


def server(folder: Path) -> Server:
    file = folder / "disturbed.toml"
    file.write_text(
        f"[server]\nheartbeat_s = {HEARTBEAT_S}\nmax_streams_per_principal = 20000\n"
        f'[agents."local/bench"]\nretention_s = {RETENTION_S}\n'
        'backend = { kind = "python", target = "bench.agents:pure" }\n'
    )
    plain = trunkline("trunkline", "Trunkline", TASKS)
    return replace(plain, arguments=("serve", "--config", str(file)))


@dataclass(frozen=True, slots=True)
class Sends:
    per_s: float
    paced: Outcome


def small_sends(target: Target, window_s: float) -> Sends:
    """Half of the window for each way of asking."""
    send = Send(target.caller)
    with target.client(CONNECTIONS) as client:
        expect_right(client.run(send, total=500, limit_s=window_s / 3))
        began = time.monotonic()
        outcome = expect_right(client.run(send, total=sys.maxsize, limit_s=window_s / 2))
        per_s = outcome.done / (time.monotonic() - began)
    with target.client(POOL) as client:
        paced = client.run_paced(send, every_s=EVERY_S, limit_s=window_s / 2)
    return Sends(per_s, expect_right(paced))


@contextmanager
def beside(work: Callable[[Any], None]) -> Iterator[Any]:
    """Run it in a process of its own until the block is left; enter when it calls `ready`."""
    context = multiprocessing.get_context("fork")
    count = context.Value("i", -1)
    process = context.Process(target=_with_low_priority, args=(work, count), daemon=True)
    process.start()
    try:
        while count.value < 0:
            if not process.is_alive():
                raise WrongAnswers("the disturbance ended before it began")
            time.sleep(0.05)
        yield count
        if not process.is_alive():
            raise WrongAnswers("the disturbance ended early")
    finally:
        process.kill()
        process.join()


def _with_low_priority(work: Callable[[Any], None], count: Any) -> None:
    os.nice(19)
    work(count)


def crowd(target: Target, scale: Scale) -> Callable[[Any], None]:
    """Counts the pieces that its streams bring."""

    def work(count: Any) -> None:
        with target.client(scale.subscribers) as client:
            attach(target, client, started(target, f"ticks {int(scale.window_s * 4)}"))
            count.value = 0
            while True:
                for connection in client.ready(silence_s=30):
                    connection.receive()
                    count.value += 1

    return work


def started(target: Target, text: str) -> str:
    caller = target.caller
    at_once = {"configuration": {"returnImmediately": True}}
    start = Fixed(caller.message(caller.dialect.send, text, **at_once))
    target.ask(start)
    task_id: str = start.answer["result"]["task"]["id"]
    return task_id


def attach(target: Target, client: Client, task_id: str) -> None:
    subscribe = Fixed(target.caller.call(target.caller.dialect.subscribe, {"id": task_id}))
    for connection in client.connections:
        connection.ask(subscribe)
    waiting = set(client.connections)
    while waiting:
        for connection in client.ready(silence_s=30):
            if connection.receive():
                raise WrongAnswers(f"not a stream: {connection.response.body()[:200]!r}")
            if connection.response.received:
                waiting.discard(connection)


def replay(target: Target, scale: Scale) -> Callable[[Any], None]:
    """Counts the replays."""
    done = Fixed(target.caller.message(target.caller.dialect.send, f"spaced {scale.events}"))
    target.ask(done)
    payload = {
        "jsonrpc": "2.0",
        "id": FIRST_NUMBER,
        "method": target.caller.dialect.subscribe,
        "params": {"id": done.answer["result"]["task"]["id"]},
    }
    headers = dict(target.caller.dialect.headers) | {"Last-Event-ID": "0"}
    again = Fixed(Prepared(target.server.path, payload, headers))

    def work(count: Any) -> None:
        with target.client(1) as client:
            (connection,) = client.connections
            while True:
                connection.ask(again)
                while not any([each.receive() for each in client.ready(silence_s=30)]):
                    pass
                events = connection.response.body().count(b"\nid: ")
                if events < scale.events:
                    raise WrongAnswers(f"a replay of {events} events")
                count.value = max(0, count.value) + 1

    return work


def measure_beside(
    fleet: Fleet, folder: Path, scale: Scale, disturb: Callable[[Target, Scale], Any], what: str
) -> None:
    target = fleet.start(server(folder))
    try:
        undisturbed = small_sends(target, scale.window_s)
        with beside(disturb(target, scale)) as count:
            before = count.value
            disturbed = small_sends(target, scale.window_s)
            note = f"{count.value - before:,} {what}"
        tell(disturb.__name__, undisturbed, disturbed, scale, note)
    finally:
        fleet.stop(target)


def measure_retention(fleet: Fleet, folder: Path, scale: Scale) -> None:
    data = folder / "retention"
    shutil.copytree(filled(sys.executable, scale.stored), data)
    target = fleet.start(server(folder), data=data)
    try:
        sweeps_at = time.monotonic() + SWEEPS_AFTER_S + 2
        undisturbed = small_sends(target, scale.window_s)
        before = stored_tasks(target)
        time.sleep(max(0.0, sweeps_at - time.monotonic()))
        disturbed = small_sends(target, scale.window_s)
        deleted = before - stored_tasks(target)
        tell("retention", undisturbed, disturbed, scale, f"at least {deleted:,} tasks deleted")
    finally:
        fleet.stop(target)
        shutil.rmtree(data, ignore_errors=True)


def stored_tasks(target: Target) -> int:
    page = Fixed(target.caller.call(target.caller.dialect.list, {"pageSize": 1}))
    target.ask(page)
    total: int = page.answer["result"]["totalSize"]
    return total


def tell(name: str, undisturbed: Sends, disturbed: Sends, scale: Scale, note: str) -> None:
    print(f"\n{name}: {note} in {scale.window_s:g} s")
    print(f"  {'':12} {'per s':>8} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
    for title, sends in (("undisturbed", undisturbed), ("disturbed", disturbed)):
        p50, p99, worst = (sends.paced.percentile_ms(share) for share in (0.5, 0.99, 1.0))
        print(f"  {title:12} {sends.per_s:8,.0f} {p50:8.2f} {p99:8.2f} {worst:8.2f}")
    print(f"  throughput: {disturbed.per_s / undisturbed.per_s:.0%} of undisturbed", flush=True)


CASES: dict[str, Callable[[Fleet, Path, Scale], None]] = {
    "crowd": lambda fleet, folder, scale: measure_beside(
        fleet, folder, scale, crowd, f"pieces to {scale.subscribers:,} subscribers"
    ),
    "replay": lambda fleet, folder, scale: measure_beside(
        fleet, folder, scale, replay, f"replays of {scale.events:,} events"
    ),
    "retention": measure_retention,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.disturbed")
    parser.add_argument("--quick", action="store_true", help="few of everything, a few seconds")
    parser.add_argument("--only", metavar="CASE,…", help=f"of {', '.join(CASES)}")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(CASES)
    for name in chosen:
        if name not in CASES:
            parser.error(f"no case {name!r}")
    server_core, own_core = cores.split()
    os.sched_setaffinity(0, {own_core})
    raise_open_files()
    folder = RESULTS / f"disturbed-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        with Fleet(sys.executable, server_core) as fleet:
            for name in chosen:
                CASES[name](fleet, folder, QUICK if options.quick else FULL)
    except (WrongAnswers, ServerGone) as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
