"""`OpenClawBackend`: an agent of OpenClaw as a backend, over the WebSocket of its gateway."""

import logging

from trunkline.backends.kind import Resources
from trunkline.backends.openclaw.address import Address, openclaw_address
from trunkline.backends.openclaw.agents import check_agent, host_tools, host_tools_finding
from trunkline.backends.openclaw.completions import OpenClawHttpBackend
from trunkline.backends.openclaw.connection import Link
from trunkline.backends.openclaw.exchange import Exchange
from trunkline.backends.openclaw.failures import Trouble
from trunkline.backends.openclaw.notes import MemoryNotes, recall, run_name
from trunkline.backends.openclaw.run import Run, stop_run
from trunkline.backends.openclaw.settings import OpenClawBackend as OpenClawSettings
from trunkline.backends.turn_task import TurnTaskBackend
from trunkline.ports.backend import Backend, Notes, TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import ClientTap

_log = logging.getLogger("trunkline.backends.openclaw")


class OpenClawBackend(TurnTaskBackend[Run]):
    can_resume = True

    def __init__(self, address: Address, *, clock: Clock, tap: ClientTap | None = None) -> None:
        super().__init__("openclaw")
        self._address = address
        self._memory = MemoryNotes()
        self._link = Link(address, clock, self.tasks, tap=tap)
        self.session_key_of = address.session_key_of

    async def open(self, agent: str, notes: Notes) -> None:
        self.tasks.spawn(self._look(agent), name="look at OpenClaw")

    async def _look(self, agent: str) -> None:
        """Log problems of access and risky tools at the start, before the first turn."""
        address, extra = self._address, {"agent": agent}
        try:
            connection = await self._link.connection()
            await check_agent(connection, address.agent_id)
            tools = await host_tools(connection, address.agent_id)
        except Trouble as trouble:
            if not self._link.is_closed:
                _log.warning("%s. %s", trouble.found, trouble.remedy, extra=extra)
            return
        if tools:
            finding = host_tools_finding(address.agent_id, tools)
            _log.warning("%s. %s", finding.what, finding.remedy, extra=extra)

    async def presence(self) -> bool:
        """Whether there is a connection to OpenClaw, or one can be made at once."""
        try:
            await self._link.connection()
        except Trouble:
            return False
        return True

    def turn_task(self, turn: TurnRequest) -> Run:
        return Run(Exchange(turn, self._link, turn.session or self._memory))

    async def abandon(self, run_id: str, notes: Notes) -> None:
        """Stop a run that waits for an answer, or that was under way before a restart."""
        note = await recall(notes, run_name(run_id))
        if note is not None:
            await stop_run(self._link, note.session_key, note.openclaw_id)

    async def close(self) -> None:
        self.cancel_turns()
        await self._link.close()
        await super().close()


def make(settings: OpenClawSettings, resources: Resources) -> Backend:
    address = openclaw_address(settings, resources)
    if settings.surface == "http":
        return OpenClawHttpBackend(address, tap=resources.tap)
    return OpenClawBackend(address, clock=resources.clock, tap=resources.tap)
