"""`Publishing`: agents come, are replaced and leave while the runtime runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from trunkline.engine.call_chain import mark_of
from trunkline.engine.gateway_texts import AGENT_WITHDRAWN
from trunkline.ports.backend import Opens
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.drain import Drain
from trunkline.runtime.sessions import Sessions
from trunkline.runtime.slots import Slots

_log = logging.getLogger("trunkline.runtime")

WITHDRAWN = "the agent was withdrawn"
# Programs get a few seconds to end. After this long, the handle is free for another agent.
CLOSE_S = 20.0
# A backend opens without waiting for anything outside. One that does not keeps no other agent
# waiting for longer than this.
OPEN_S = 20.0


class Publishing(Struct, kw_only=True, eq=False):
    # The agents of the runtime, by handle.
    agents: dict[str, PublishedAgent]
    drain: Drain
    sessions: Sessions
    # Continues the unfinished tasks of an agent.
    recover: Callable[[str], Awaitable[None]]
    # The limits that hold over all nodes, where several share the store.
    slots: Slots | None = None
    # Tells the agents of this gateway from those of others in call chains.
    gateway: str = ""
    # Agents that were replaced or withdrawn, until their backends are closed.
    leaving: set[PublishedAgent] = set()

    def find(self, handle: str) -> PublishedAgent | None:
        """The agent of the handle, also while it is leaving."""
        found = self.agents.get(handle)
        return found or next((each for each in self.leaving if each.handle == handle), None)

    async def open_backend(self, agent: PublishedAgent) -> None:
        agent.mark = mark_of(self.gateway, agent.handle)
        if isinstance(agent.backend, Opens):
            await agent.backend.open(agent.handle, self.sessions.of_agent(agent.handle))
        if self.slots is not None:
            self.slots.limit(agent)

    async def publish(self, agent: PublishedAgent, *, continues_tasks: bool = True) -> None:
        """Open the backend of a new agent, and continue the tasks that an earlier agent of this
        handle left. Raises what the backend raises, and then nothing is changed."""
        await self._open_or_close(agent)
        self.agents[agent.handle] = agent
        if not continues_tasks:
            return
        try:
            await self.recover(agent.handle)
        except BaseException:
            await self.withdraw(agent.handle, grace_s=0)
            raise

    async def replace(self, agent: PublishedAgent, *, switch: Callable[[], None]) -> PublishedAgent:
        """Publish the agent in place of the one that has its handle: it runs what waits and what
        comes, and the earlier agent, which is returned, finishes what it has begun.

        `switch` is called in the step of the event loop in which the new agent takes over.
        """
        await self._open_or_close(agent)
        before = self.agents[agent.handle]
        self.agents[agent.handle] = agent
        self.leaving.add(before)
        self.drain.hand_over(before, agent)
        switch()
        return before

    async def finish(self, replaced: PublishedAgent) -> None:
        """Close the backend of an agent that was replaced, once its last turn has ended."""
        await self.drain.replaced(replaced)
        await self._close(replaced)

    async def withdraw(self, handle: str, *, grace_s: float) -> None:
        """Accept no more messages for the agent, let its runs finish for `grace_s`, stop the
        others, end its streams and close its backend."""
        agent = self.agents.pop(handle)
        self.leaving.add(agent)
        agent.is_closed = True
        await self.drain.withdrawn(
            handle, grace_s=grace_s, reason=AGENT_WITHDRAWN, stream_reason=WITHDRAWN
        )
        await self._close(agent)

    async def _open_or_close(self, agent: PublishedAgent) -> None:
        try:
            async with asyncio.timeout(OPEN_S):
                await self.open_backend(agent)
        except BaseException as error:
            self.leaving.add(agent)
            await self._close(agent)
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"it has not opened within {OPEN_S:g} s") from error
            raise

    async def _close(self, agent: PublishedAgent) -> None:
        """Close the backend, once. The agent is gone in any case, so an error is only logged, and
        a backend that takes too long is left behind."""
        if agent not in self.leaving:
            return
        self.leaving.discard(agent)
        tasks = self.drain.runs.tasks
        closing = tasks.start(_close_backend(agent), name=f"close {agent.handle}")
        _, late = await asyncio.wait({closing}, timeout=CLOSE_S)
        if late:
            _log.error("a backend does not close", extra={"agent": agent.handle})


async def _close_backend(agent: PublishedAgent) -> None:
    try:
        await agent.backend.close()
    except Exception:  # noqa: BLE001 - logged, and no caller waits for this backend
        _log.exception("a backend could not be closed", extra={"agent": agent.handle})
