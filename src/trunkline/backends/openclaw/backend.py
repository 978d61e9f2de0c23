"""Puts an agent of OpenClaw behind the `Backend` port, over the WebSocket of its gateway."""

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import convert

from trunkline.backends.kind import Resources
from trunkline.backends.openclaw.address import Address, Times, openclaw_address, session_key_of
from trunkline.backends.openclaw.agents import check_agent, host_tools, host_tools_finding
from trunkline.backends.openclaw.completions import OpenClawHttpBackend
from trunkline.backends.openclaw.device import Device, load_device, proof
from trunkline.backends.openclaw.exchange import Exchange
from trunkline.backends.openclaw.failures import Trouble
from trunkline.backends.openclaw.handshake import connect_params
from trunkline.backends.openclaw.notes import MemoryNotes, RunNotes, note_of_run
from trunkline.backends.openclaw.run import Run, stop_run
from trunkline.backends.openclaw.settings import OpenClawBackend as OpenClawSettings
from trunkline.backends.openclaw.shared_connection import Link
from trunkline.backends.turn_task import TurnTaskBackend
from trunkline.background import BackgroundTasks
from trunkline.ports.backend import Backend, Notes, TurnRequest
from trunkline.ports.clock import Clock
from trunkline.remote.websocket import WebSocket, open_websocket

_log = logging.getLogger("trunkline.backends.openclaw")

# A frame of OpenClaw has up to 25 MB.
MAX_FRAME_BYTES: Final = 26 * 1024 * 1024
_HEARTBEAT_S: Final = 30.0


class OpenClawBackend(TurnTaskBackend[Run]):
    can_resume = True

    def __init__(self, address: Address, *, clock: Clock, times: Times | None = None) -> None:
        super().__init__("openclaw")
        self._address = address
        self._clock = clock
        self._times = times or Times()
        self._memory = MemoryNotes()
        self._link = make_link(address, clock=clock, tasks=self.tasks)

    async def open(self, agent: str, notes: Notes) -> None:
        self.tasks.spawn(self._look(agent), name="look at OpenClaw")

    async def _look(self, agent: str) -> None:
        """Say at the start what would otherwise be found out by the first turn, or never."""
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

    def turn_task(self, turn: TurnRequest) -> Run:
        address = self._address
        return Run(
            Exchange(
                turn,
                agent_id=address.agent_id,
                session_key=self.session_key(turn),
                link=self._link,
                notes=RunNotes(turn, turn.session or self._memory),
                clock=self._clock,
                tasks=self.tasks,
                times=self._times,
                max_output_bytes=address.max_output_bytes,
            )
        )

    def session_key(self, turn: TurnRequest) -> str:
        """The session at OpenClaw that the turn belongs to."""
        return session_key_of(turn, self._address.session_key, agent_id=self._address.agent_id)

    def session_key_of(self, *, agent: str, tenant: str, principal: str, context_id: str) -> str:
        return self._address.key_by(
            agent=agent, tenant=tenant, principal=principal, context_id=context_id
        )

    async def abandon(self, run_id: str, notes: Notes) -> None:
        """Stop a run that asks, or that was under way before a restart."""
        note = await note_of_run(notes, run_id)
        if note is not None:
            await stop_run(
                self._link,
                self._clock,
                session_key=note.session_key,
                openclaw_id=note.openclaw_id,
            )

    async def close(self) -> None:
        self.cancel_turns()
        await self._link.close()
        await super().close()


def make_link(address: Address, *, clock: Clock, tasks: BackgroundTasks) -> Link:
    async def dial() -> WebSocket:
        return await open_websocket(
            address.url,
            connect_s=address.connect_s,
            max_frame_bytes=MAX_FRAME_BYTES,
            heartbeat_s=_HEARTBEAT_S,
        )

    return Link(dial=dial, introduce=_introduction(address), clock=clock, tasks=tasks)


def _introduction(address: Address) -> Callable[[str, int], dict[str, Any]]:
    file = address.device_file
    device: Device | None = load_device(file) if file is not None else None

    def introduce(nonce: str, ts: int) -> dict[str, Any]:
        shown = None
        if device is not None:
            shown = proof(
                device, token=address.token, platform=address.platform, nonce=nonce, ts=ts
            )
        return connect_params(token=address.token, platform=address.platform, device=shown)

    return introduce


def make(settings: OpenClawSettings, resources: Resources) -> Backend:
    address = openclaw_address(settings, resources.data_dir)
    if settings.surface == "http":
        return OpenClawHttpBackend(address, idle_s=settings.idle_s)
    times = convert(settings, Times, from_attributes=True)
    return OpenClawBackend(address, clock=resources.clock, times=times)
