"""`Trial`: one configured agent in this process, without a server and without a lasting store."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from trunkline.app.gateway import build
from trunkline.config.problems import did_you_mean
from trunkline.model.calls import Caller, SendMessageRequest
from trunkline.model.errors import ConfigError, TrunklineError
from trunkline.model.events import Entry
from trunkline.model.handles import EVERY
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.fanout import CutOff, Item, NoReply, Opening, Reply
from trunkline.runtime.service import Service
from trunkline.settings import Settings, StoreSettings

Event: TypeAlias = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
_CALLER = Caller(principal=Principal(id="tester", grants=EVERYTHING))


class Trial:
    """The agent, as the gateway runs it: with its profile, its queue and its journal."""

    def __init__(self, agent: PublishedAgent, service: Service) -> None:
        self.handle = agent.handle
        self._agent = agent
        self._service = service

    async def send(self, request: SendMessageRequest) -> AsyncIterator[Event]:
        """The events that a message causes, until the task settles. Raises TrunklineError."""
        reader = await self._service.stream(self._agent, _CALLER, request)
        try:
            while items := await reader.next():
                for item in items:
                    if (event := _event(item)) is not None:
                        yield event
        finally:
            reader.close()


def _event(item: Item) -> Event | None:
    match item:
        case Entry():
            return item.public
        case Opening():
            return msgspec.json.decode(item.task, type=Task)
        case Reply():
            return msgspec.json.decode(item.message, type=Message)
        case NoReply():
            raise item.error
        case CutOff():
            raise TrunklineError(item.reason)
        case _:
            return None


@asynccontextmanager
async def trial(settings: Settings, handle: str) -> AsyncIterator[Trial]:
    """The agent of that handle, or the only one there is. Raises ConfigError."""
    gateway = build(_alone(settings, handle), base_url="http://127.0.0.1")
    # The runtimes also have agents of the gateway itself.
    found = {
        each.agent.handle: Trial(each.agent, each.service) for each in gateway.directory.callees()
    }
    if not handle and len(found) == 1:
        handle = next(iter(found))
    if handle not in found:
        raise ConfigError(_unknown(handle, found, settings))
    await gateway.runtimes.open()
    try:
        yield found[handle]
    finally:
        await gateway.runtimes.close()


def _alone(settings: Settings, handle: str) -> Settings:
    """The settings with only the agents that the handle can mean, on a store in memory."""
    agents = settings.agents
    if handle in agents:
        agents = {handle: agents[handle]}
    elif handle:
        # The agents of a Python target are known only after it is loaded.
        every = f"{handle.partition('/')[0]}/{EVERY}"
        agents = {name: agent for name, agent in agents.items() if name == every}
    kept = {
        name: replace(agent, store=None, default=False)
        for name, agent in agents.items()
        if not agent.unavailable
    }
    return replace(settings, store=StoreSettings(kind="memory"), agents=kept)


def _unknown(handle: str, found: Iterable[str], settings: Settings) -> str:
    agent = settings.agents.get(handle)
    if agent is not None and agent.unavailable:
        return f'the agent "{handle}" is off: {agent.unavailable}'
    found = list(found)
    if not handle:
        # The slug is usually the name of the function; the loader corrects other names.
        names = ", ".join(name.partition("/")[2].replace("-", "_") for name in found)
        return f"there are several agents. Name one, as FILE.py:attribute. There is: {names}."
    known = list(dict.fromkeys([*found, *settings.agents]))
    listed = f"There is: {', '.join(known) or 'none'}."
    return f'there is no agent "{handle}". {did_you_mean(handle, known)}{listed}'
