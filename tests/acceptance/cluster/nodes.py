"""`Nodes`: several gateways on one store, killed, stopped and started while clients work."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.acceptance.cluster.clients import ClusterClient, Told
from tests.acceptance.cluster.history import Stop, Turn, read_turns
from tests.acceptance.kill_gateway import GatewayProcess, free_port

from trunkline.remote.http import HttpClient

_AGENTS = Path(__file__).with_name("agents.py")
_AGENT = """
[agents."test/{name}"]
on_restart = {on_restart}
backend = {{ kind = "python", target = "{file}:{name}" }}
"""
_FAILS = '["resume_queued", "fail_running"]'
_RETRIES = '["resume_queued", "retry_running"]'
# The database is away for a while, and the machine is busy.
START_S = 120.0
AGENTS = {"effects": _FAILS, "pure": _RETRIES, "retrying": _RETRIES}


class Nodes:
    def __init__(self, folder: Path, configs: Sequence[str], chance: random.Random) -> None:
        """`configs` has for each node the tables of the store, which all of them share."""
        self.told = Told()
        self.stops: list[Stop] = []
        self._chance = chance
        self._turn_log = folder / "turns"
        self.all = [
            self._make(folder / f"node{number}", config) for number, config in enumerate(configs)
        ]
        # Those that clients turn to.
        self.up = list(self.all)

    def _make(self, folder: Path, config: str) -> GatewayProcess:
        folder.mkdir()
        for name, on_restart in AGENTS.items():
            config += _AGENT.format(name=name, on_restart=on_restart, file=_AGENTS)
        node = GatewayProcess(folder, free_port(), config)
        node.environment["TURN_LOG"] = str(self._turn_log)
        # Where a gateway without a store of its own keeps the file for its operator.
        node.environment["XDG_DATA_HOME"] = str(folder)
        return node

    async def start(self) -> None:
        async with asyncio.TaskGroup() as group:
            for node in self.all:
                group.create_task(node.start())

    def url(self, agent: str) -> str:
        """The address of an agent at any node, also at one that is gone or does not answer."""
        return self._chance.choice(self.all).url(agent)

    def url_of_one_up(self, agent: str) -> str:
        return self._chance.choice(self.up or self.all).url(agent)

    def client(
        self, http: HttpClient, name: str, url: Callable[[str], str] | None = None
    ) -> ClusterClient:
        chance = random.Random(f"{self._chance.random()} {name}")
        return ClusterClient(http, url or self.url, self.told, chance, name)

    async def revive(self, node: GatewayProcess) -> None:
        """Start it as a supervisor does: again, when it ends because the database is away."""
        async with asyncio.timeout(START_S):
            while not await node.try_start():
                pass

    async def kill(self, node: GatewayProcess) -> None:
        await node.kill()
        self.stops.append(Stop(node.pid, time.monotonic_ns()))

    async def pause(self, node: GatewayProcess, seconds: float) -> None:
        """Stop the process for longer than the others wait for it."""
        os.kill(node.pid, signal.SIGSTOP)
        self.stops.append(Stop(node.pid, time.monotonic_ns()))
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(node.pid, signal.SIGCONT)

    def turns(self) -> list[Turn]:
        return read_turns(self._turn_log.read_text()) if self._turn_log.exists() else []

    def running(self, node: GatewayProcess, *, kind: str) -> set[str]:
        """The tasks whose turns have begun there and not ended."""
        return {
            turn.task_id
            for turn in self.turns()
            if turn.pid == node.pid and turn.kind == kind and turn.ended_ns is None
        }

    async def close(self) -> None:
        for node in self.all:
            await node.kill()

    def logs(self) -> str:
        return "\n".join(f"== {node.folder.name}\n{node.log()[-10_000:]}" for node in self.all)
