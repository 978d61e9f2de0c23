"""Calls of agents to agents: how many answers arrive, how soon, and how exact timeouts are.

PYTHONPATH=src:. .venv-dev/bin/python -m bench.agent_calls    # in the environment of ./check

An agent makes 200 calls side by side, again and again: while the gateway has nothing else to do,
beside an agent that keeps its event loop busy, with answers that come too late, and while the
gateway is killed and started again. Then the store tells when each answer was committed to the
session of its caller. The exit code is 1 when a target below is missed.
"""

import asyncio
import json
import math
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench import cores
from bench.process import Process, free_port
from trunkline.model.values import TaskState
from trunkline.ports.caller_records import ENTRY
from trunkline.ports.records import Record
from trunkline.ports.store import OperatorQuery, all_tasks
from trunkline.routing.call_records import CALL, CallRecord, decode_record
from trunkline.stores.sqlite import SqliteStore

PARALLEL = 200
ROUNDS = 10
KILLS = 5
# How long the agent that keeps the loop busy holds it at a time. It has it half of the time.
SLICE_S = 0.002
MIN_DELIVERED = 0.999
MAX_P99_MS = 50
MAX_TIMEOUT_ERROR_MS = 250
AGENTS = """
import asyncio
import random
import time

from trunkline import agent


@agent
async def caller(turn):
    timeout_s = float(turn.text.split()[0])
    calls = [
        turn.call("bench/helper", turn.text, wait=False, timeout_s=timeout_s)
        for _ in range({parallel})
    ]
    made = await asyncio.gather(*calls)
    return " ".join(each["correlationId"] for each in made)


@agent
async def helper(turn):
    _, least_s, most_s = map(float, turn.text.split())
    await asyncio.sleep(random.uniform(least_s, most_s))
    return {{"output": time.time() * 1000}}


@agent
async def busy(turn):
    while True:
        until = time.monotonic() + {slice_s}
        while time.monotonic() < until:
            pass
        await asyncio.sleep({slice_s})
"""
CONFIG = """
[routing]
grace_s = 3600
"""


class Gateway:
    def __init__(self, folder: Path, core: int) -> None:
        self._folder, self._core, self._port = folder, core, free_port()
        self._process: Process | None = None
        code = folder / "agents.py"
        code.write_text(AGENTS.format(parallel=PARALLEL, slice_s=SLICE_S))
        config = CONFIG
        for name in ("caller", "helper", "busy"):
            config += f'[agents."bench/{name}"]\nname = "{name}"\n'
            config += f'backend = {{ kind = "python", target = "{code}:{name}" }}\n'
        (folder / "trunkline.toml").write_text(config)

    @property
    def database(self) -> Path:
        return self._folder / "data" / "trunkline.db"

    def start(self) -> None:
        command = [sys.executable, "-m", "trunkline", "serve", "--port", str(self._port)]
        config = ["--config", str(self._folder / "trunkline.toml")]
        self._process = Process(
            [*command, *config, "--data", str(self._folder / "data")],
            port=self._port,
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
            log=self._folder / "log",
            core=self._core,
            cwd=self._folder,
        )
        self._process.wait_until_up("/readyz")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def send(self, agent: str, text: str, context: str, *, waits: bool = True) -> Any:
        message = {
            "messageId": os.urandom(8).hex(),
            "role": "ROLE_USER",
            "contextId": context,
            "parts": [{"text": text}],
        }
        params = {"message": message, "configuration": {"returnImmediately": not waits}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/api/a2a/v1/agents/bench/{agent}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "A2A-Version": "1.0"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["result"]["task"]

    def committed_within_ms(self) -> dict[float, int]:
        """How many answers were committed so soon after the end of the work, by the histogram."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as page:
            text = page.read().decode()
        name = "trunkline_agent_call_delivery_seconds_bucket"
        found = re.findall(rf'{name}{{le="([^"]+)"}} ([0-9.e+]+)', text)
        return {float(bound) * 1000: int(float(count)) for bound, count in found}

    def ask(self, context: str, timeout_s: float, least_s: float, most_s: float) -> set[str]:
        """The ids of calls whose answers take so long."""
        task = self.send("caller", f"{timeout_s} {least_s} {most_s}", context)
        return set(task["artifacts"][0]["parts"][0]["text"].split())


def measure(gateway: Gateway) -> set[str]:
    """The calls that a caller was told of. Each phase has a context of its own."""
    told: set[str] = set()
    gateway.start()
    for _ in range(ROUNDS):
        told |= gateway.ask("quiet", 60, 0.1, 0.6)
        time.sleep(1)
    gateway.send("busy", "", "", waits=False)
    before = gateway.committed_within_ms()
    for _ in range(ROUNDS):
        told |= gateway.ask("busy", 60, 0.1, 0.6)
        time.sleep(2)
    counts = {b: n - before[b] for b, n in gateway.committed_within_ms().items()}
    bound = next(b for b, n in sorted(counts.items()) if n >= 0.99 * counts[math.inf])
    print(f"busy: 99 % of the answers were on the disk within {bound:g} ms")
    told |= gateway.ask("timeouts", 2, 30, 30)
    time.sleep(4)
    with ThreadPoolExecutor() as threads:
        for number in range(KILLS):
            asked = threads.submit(gateway.ask, "restarts", 4, 0.0, 1.5)
            # In the midst of the calls, of the answers, or of both.
            time.sleep(0.3 + number * 0.3)
            gateway.kill()
            if asked.exception() is None:
                told |= asked.result()
            gateway.start()
    time.sleep(6)
    gateway.stop()
    return told


class Found(NamedTuple):
    calls: dict[str, CallRecord]
    # The answers of each call, with the time of their commit.
    answers: dict[str, list[tuple[int, Any]]]
    # The tasks of called agents that were completed.
    completed: set[str]


async def read(database: Path) -> Found:
    store = SqliteStore(database)
    await store.open()
    try:
        calls = [decode_record(each.body) for each in await store.records(CALL, limit=100_000)]
        answers: dict[str, list[tuple[int, Any]]] = {each.call.id: [] for each in calls}
        for record in await store.records(ENTRY, limit=100_000):
            payload = payload_of(record)
            answers.setdefault(payload["correlationId"], []).append((record.due_ms or 0, payload))
        completed = {
            task.task_id
            async for task in all_tasks(store, OperatorQuery(agent="bench/helper", limit=200))
            if task.state is TaskState.COMPLETED
        }
    finally:
        await store.close()
    return Found({each.call.id: each for each in calls}, answers, completed)


def payload_of(record: Record) -> Any:
    message = json.loads(record.body)
    return json.loads("".join(part["text"] for part in message["parts"]))


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def report(found: Found, told: set[str]) -> list[str]:
    """Print the figures. Returns the targets that were missed."""
    missed = []
    for phase in ("quiet", "busy", "timeouts", "restarts"):
        calls = [c for c in found.calls.values() if c.call.session.context_id == phase]
        states = Counter(call.state for call in calls)
        print(f"{phase}: {len(calls)} calls, {dict(states)}")
        delays = [
            # The store counts whole milliseconds.
            max(0.0, at_ms - payload["output"])
            for call in calls
            for at_ms, payload in found.answers[call.call.id]
            if payload["status"] == "completed"
        ]
        errors = [
            abs(at_ms - call.call.begun_ms - call.call.timeout_ms)
            for call in calls
            for at_ms, payload in found.answers[call.call.id]
            if payload["status"] == "timeout"
        ]
        if delays:
            p50, p99 = percentile(delays, 0.5), percentile(delays, 0.99)
            print(f"  from the end of the work to the session: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
            if phase in ("quiet", "busy") and p99 > MAX_P99_MS:
                missed.append(f"{phase}: p99 {p99:.1f} ms")
        if errors:
            print(f"  timeouts: {max(errors)} ms late at most")
            if phase == "timeouts" and max(errors) > MAX_TIMEOUT_ERROR_MS:
                missed.append(f"timeouts are {max(errors)} ms off")
    counts = Counter(map(len, found.answers.values()))
    print(
        f"answers of a call: {dict(counts)}; calls that a caller knew and nobody else: "
        f"{len(told - found.calls.keys())}"
    )
    if set(counts) != {1} or told - found.calls.keys():
        missed.append("a call without an answer, or with two")
    in_time = {c.task_id for c in found.calls.values() if c.state == "completed"}
    late = {c.task_id for c in found.calls.values() if c.state == "timeout"}
    completed = found.completed - late
    delivered = len(completed & in_time) / len(completed)
    print(f"delivered of what was completed in time: {delivered:.4%}")
    if delivered < MIN_DELIVERED:
        missed.append(f"delivered {delivered:.4%}")
    return missed


def main() -> int:
    server_core, client_core = cores.split()
    os.sched_setaffinity(0, {client_core})
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder), server_core)
        try:
            told = measure(gateway)
        finally:
            gateway.stop()
        missed = report(asyncio.run(read(gateway.database)), told)
    for each in missed:
        print(f"missed: {each}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
