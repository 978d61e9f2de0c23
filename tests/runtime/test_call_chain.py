"""The chain of agents through which a call came: checked, kept with the turn, and passed on."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from tests.runtime.gates import RecordingGate
from tests.runtime.world import ALICE, World, world

from trunkline.model.errors import PermissionDenied
from trunkline.model.outputs import Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.call_path import CALL_PATH
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, ScriptedBackend, settle


class PathWatcher(ScriptedBackend):
    """Notes the path that each turn sees."""

    def __init__(self) -> None:
        super().__init__(clock=FakeClock())
        self.chains: list[tuple[str, ...]] = []

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        self.chains.append(CALL_PATH.get().chain)
        return super().start(turn)


async def send(w: World, text: str, *chain: str, now: bool = False) -> None:
    caller = replace(ALICE, call_chain=chain)
    await w.service.send(w.agent, caller, w.request(text, context="c", now=now))


async def test_a_turn_sees_the_chain_and_its_own_agent_at_the_end() -> None:
    backend = PathWatcher()
    async with world(backend=backend) as w:
        await send(w, "say hi")
        await send(w, "say hi", "one", "two")
        assert backend.chains == [(w.agent.mark,), ("one", "two", w.agent.mark)]
        assert CALL_PATH.get().chain == ()


async def test_a_call_in_a_circle_is_refused_and_recorded() -> None:
    gate = RecordingGate()
    async with world(gate=gate) as w:
        with pytest.raises(PermissionDenied, match="calls it again"):
            await send(w, "say hi", "one", w.agent.mark, "two")
        ((_, refusal),) = gate.recorded
        assert refusal is not None
        assert refusal.reason == "call_cycle"
        assert not w.scripted.turns


async def test_a_turn_that_waits_over_a_restart_keeps_its_chain() -> None:
    store, backend = MemoryStore(FakeClock()), PathWatcher()
    async with world(store=store) as w:
        await send(w, "hang", now=True)
        await send(w, "say hi", "one", now=True)
        mark = w.agent.mark
    async with world(store=store, backend=backend) as w:
        await settle()
        assert w.agent.mark == mark
        assert backend.chains == [("one", mark)]
