"""`AgentDirectory`: publishes, replaces and withdraws the agents of a gateway.

Addresses change in one step of the event loop, so that a request finds the agent whole or not at
all, on new connections and on those that are kept open.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace as changed

from trunkline.app.adapters import load_agents, make_backend, resources_for
from trunkline.app.card_signer import CardSigner
from trunkline.app.cards import input_modes, output_modes
from trunkline.app.endpoints import Endpoints
from trunkline.app.model_tools import model_tools
from trunkline.app.openclaw_channel import Account
from trunkline.app.presences import Presences
from trunkline.app.runtimes import Runtimes
from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.python import Agent
from trunkline.backends.python.settings import PythonBackend
from trunkline.background import next_pass
from trunkline.config.masking import KnownSecrets
from trunkline.config.secret import secrets_in
from trunkline.console.wire.control import WireControl
from trunkline.hub.limits import Place
from trunkline.model.card import AgentSkill
from trunkline.model.errors import (
    AgentExists,
    AgentNotPublished,
    ConfigError,
    TrunklineError,
    Unavailable,
)
from trunkline.model.handles import folded
from trunkline.model.profile import Profile
from trunkline.ports.backend import Backend
from trunkline.ports.clock import Clock
from trunkline.ports.directory import Listing, Load, Standing
from trunkline.ports.tools import LendsTools, TurnTool
from trunkline.protocol import cards
from trunkline.routing.callees import Callee
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.runtime import Runtime
from trunkline.server import logs
from trunkline.server.application import Application
from trunkline.server.endpoint import Endpoint
from trunkline.settings import AgentSettings, Settings, StoreSettings
from trunkline.settings.agent_card import SkillSettings
from trunkline.settings.agents import stands_for_many
from trunkline.settings.load import agent_from


class _Entry(Struct, eq=False, kw_only=True):
    """A published agent, with all that was made for it."""

    settings: AgentSettings
    agent: PublishedAgent
    # The agent that a Python backend runs.
    code: Agent | None
    store: StoreSettings
    runtime: Runtime
    standing: Standing | None
    endpoints: tuple[Endpoint, ...]


class AgentDirectory:
    """It implements `ports.directory.Directory`. One agent is published or withdrawn at a time;
    the turns of those that leave end beside that."""

    def __init__(
        self,
        *,
        settings: Settings,
        endpoints: Endpoints,
        runtimes: Runtimes,
        application: Application,
        clock: Clock,
        on_change: Callable[[Settings], None],
        tools_of: Callable[[AgentSettings], Mapping[str, TurnTool]],
        lends_tools: LendsTools,
        wire: WireControl,
        secrets: KnownSecrets,
    ) -> None:
        """`on_change` is called with the settings in force after each change. `tools_of` returns
        the tools with which an agent calls others of the gateway; `lends_tools` lends them to
        programs. `wire` says which agents are recorded; the records hide the `secrets`."""
        self._wire = wire
        self._secrets = secrets
        self._tools_of = tools_of
        self._lends_tools = lends_tools
        # The settings in force, with the agents that are published now.
        self.settings = settings.with_default()
        # The running accounts of the channel `a2a`, by their ids.
        self.accounts: dict[str, Account] = {}
        self._endpoints = endpoints
        self._runtimes = runtimes
        self._application = application
        self._clock = clock
        self._on_change = on_change
        self._entries: dict[str, _Entry] = {}
        # The handles of the other agents, those of the configuration, by how they are compared.
        self._configured = {folded(handle): handle for handle in settings.agents}
        self._presences = Presences(clock)
        self._is_publishing_many = False
        self._changing = asyncio.Lock()
        # The withdrawals under way, by handle.
        self._leaving: dict[str, asyncio.Task[None]] = {}

    @property
    def base_url(self) -> str:
        return self._endpoints.base_url

    def endpoints_of(self, handle: str) -> Sequence[Endpoint]:
        entry = self._entries.get(handle)
        return () if entry is None else entry.endpoints

    @property
    def endpoints(self) -> Iterator[Endpoint]:
        return (endpoint for entry in self._entries.values() for endpoint in entry.endpoints)

    def find(self, handle: str) -> Listing | None:
        entry = self._entries.get(handle)
        return None if entry is None else _listing(entry, self.base_url)

    def load(self, handle: str) -> Load:
        entry = self._entries.get(handle)
        if entry is None:
            return Load(0, 0)
        return Load(entry.agent.lanes.running, entry.agent.lanes.total_waiting)

    def card_json(self, handle: str) -> bytes | None:
        entry = self._entries.get(handle)
        return None if entry is None else cards.encode(entry.endpoints[0].card, "1.0")

    def list(self) -> Sequence[Listing]:
        return [_listing(entry, self.base_url) for entry in self._entries.values()]

    def callee(self, name: str) -> Callee | None:
        """The agent with the handle, or the only one with the slug, but for case."""
        entry = self._entries.get(name)
        if entry is None:
            whole = "/" in name
            found = [
                entry
                for handle, entry in self._entries.items()
                if name == folded(handle if whole else handle.partition("/")[2])
            ]
            entry = found[0] if len(found) == 1 else None
        return None if entry is None else _callee(entry)

    def callees(self) -> Sequence[Callee]:
        return [_callee(entry) for entry in self._entries.values()]

    async def close(self) -> None:
        """Ask no backend any more whether it is there."""
        await self._presences.close()

    async def is_online(self, handle: str) -> bool:
        entry = self._entries.get(handle)
        return entry is not None and await self._presences.is_online(entry.agent)

    def place_of(self, handle: str) -> Place:
        """Where the tasks of the agent are; the main store for one that is not published."""
        entry = self._entries.get(handle)
        if entry is not None:
            runtime = entry.runtime
        else:
            runtime = self._runtimes.at(self.settings.store, adopting="")
        return Place(runtime.store, runtime.is_shared)

    def configured(self, handle: str) -> str:
        """The handle of the agent that was published without a registry and has this handle, but
        for case; empty if there is none."""
        return self._configured.get(folded(handle), "")

    def configured_handles(self) -> Sequence[str]:
        return [*self._configured.values()]

    def standing_of(self, handle: str) -> Standing | None:
        entry = self._entries.get(handle)
        return None if entry is None else entry.standing

    @asynccontextmanager
    async def publishing_many(self) -> AsyncIterator[None]:
        self._is_publishing_many = True
        try:
            yield
        finally:
            self._is_publishing_many = False
        for runtime in self._runtimes:
            await runtime.recover()
        self._on_change(self.settings)

    def __contains__(self, handle: object) -> bool:
        return handle in self._entries

    def code_of(self, handle: str) -> Agent | None:
        """The agent that the Python backend of a published agent runs."""
        return self._entries[handle].code

    def prepare(self, handle: str, code: Agent | None) -> None:
        """Publish an agent of the settings before the gateway is opened."""
        settings = self.settings
        store = settings.agents[handle].store or settings.store
        runtime = self._runtimes.at(store, adopting=settings.adopting_agent(store))
        is_default = handle == settings.default_agent()
        entry = self._made(handle, settings, code, runtime, is_default=is_default)
        runtime.agents[handle] = entry.agent
        self._show(entry)

    async def publish(
        self,
        handle: str,
        table: Mapping[str, Any],
        *,
        replace: bool = False,
        standing: Standing | None = None,
    ) -> None:
        if stands_for_many(handle):
            raise ConfigError(f'agents."{handle}": publish each agent under a handle of its own.')
        settings = agent_from(handle, table, among=self.settings)
        if settings.unavailable:
            raise ConfigError(
                f'agents."{handle}".unavailable: an agent that is off cannot be published. Leave '
                "the key out, or withdraw the agent."
            )
        code: dict[str, Agent] = {}
        if isinstance(settings.backend, PythonBackend):
            alone = changed(self.settings, agents={handle: settings})
            # In a thread, because Python agents may take long to import.
            loaded, code = await asyncio.to_thread(load_agents, alone)
            settings = loaded.agents[handle]
        await self.put(
            handle,
            settings,
            code.get(handle),
            is_default=settings.default,
            replace=replace,
            standing=standing,
        )

    async def put(
        self,
        handle: str,
        settings: AgentSettings,
        code: Agent | None,
        *,
        is_default: bool,
        replace: bool,
        standing: Standing | None = None,
    ) -> None:
        """Publish an agent of checked settings. One that is the default is also at the addresses
        of the root. Raises AgentExists for a handle that is taken, unless it is to be replaced."""
        while True:
            # Outside of the lock, because turns of the earlier agent may run for a while.
            while leaving := self._leaving.get(handle):
                await asyncio.wait({leaving})
            async with self._changing:
                if handle in self._leaving:
                    continue
                if handle in self._entries and not replace:
                    raise AgentExists(
                        f'agents."{handle}": an agent of this handle is published already. Replace '
                        "it, or withdraw it first."
                    )
                await self._put(handle, settings, code, is_default=is_default, standing=standing)
                return

    async def withdraw(self, handle: str, *, grace_s: float) -> None:
        leaving = await self.begin_withdrawal(handle, grace_s=grace_s)
        # The agent leaves whether the caller waits or not.
        await asyncio.wait({leaving})
        if leaving.cancelled():
            raise Unavailable(
                "The gateway is shutting down; the agent ends with it", retry_after_s=5
            )
        leaving.result()

    async def begin_withdrawal(self, handle: str, *, grace_s: float) -> "asyncio.Task[None]":
        """The same, without waiting for the turns of the agent. Returns the task that ends them."""
        async with self._changing:
            entry = self._entries.get(handle)
            if entry is None:
                raise AgentNotPublished(f'agents."{handle}": no agent of this handle is published.')
            self._hide(entry)
            return self._leave(entry, grace_s=grace_s)

    def configure(self, settings: Settings, *, base_url: str, signer: CardSigner | None) -> None:
        """Make the cards and addresses of agents by other settings from now on. Agents that are
        published keep theirs until `readdress`."""
        self.settings = settings
        # Those of agents are hidden for as long as these are published.
        self._secrets.hide(secrets_in(changed(settings, agents={})))
        self._configured = {
            folded(handle): handle for handle in settings.agents if self.standing_of(handle) is None
        }
        self._endpoints = changed(
            self._endpoints, settings=settings, base_url=base_url, signer=signer
        )

    async def readdress(self, handles: Mapping[str, bool], *, settings: Settings) -> dict[str, str]:
        """Give published agents the cards and addresses that the settings say, and no others. The
        value of each handle is whether the agent is the default. Returns the errors by handle.

        All agents first give up the addresses that they lose, so that they can swap them.
        """
        refused: dict[str, str] = {}
        maker = changed(self._endpoints, settings=settings)
        async with self._changing:
            made: list[tuple[_Entry, _Entry]] = []
            for handle, is_default in handles.items():
                entry = self._entries[handle]
                endpoints = tuple(
                    maker.of(entry.agent, entry.runtime.service, entry.code, is_default=is_default)
                )
                for endpoint in endpoints:
                    endpoint.standing = entry.standing
                made.append((entry, changed(entry, endpoints=endpoints)))
                # Signing a card takes a millisecond or more, and there may be many agents.
                await next_pass()
            for entry, successor in made:
                self._application.remove(entry.endpoints, but=successor.endpoints)
            for entry, successor in made:
                try:
                    self._check_is_free(successor)
                except ConfigError as error:
                    refused[entry.agent.handle] = error.message
                else:
                    self._show(successor, in_place_of=entry)
        return refused

    async def _put(
        self,
        handle: str,
        settings: AgentSettings,
        code: Agent | None,
        *,
        is_default: bool,
        standing: Standing | None,
    ) -> None:
        after = changed(self.settings, agents=self.settings.agents | {handle: settings})
        store = settings.store or after.store
        known = self._entries.get(handle)
        adopting = partial(after.adopting_agent, store)
        runtime = await self._runtimes.opened(store, adopting=adopting)
        # Before anything of the agent can write to the log.
        self._hide_secrets(secrets_in(settings))
        try:
            entry = self._made(
                handle, after, code, runtime, is_default=is_default, standing=standing
            )
            try:
                self._check_is_free(entry)
            except ConfigError:
                await entry.agent.backend.close()
                raise
            await self._open(entry, known)
        except BaseException as error:
            self._forget_secrets(secrets_in(settings))
            await self._runtimes.close_unused(store)
            if isinstance(error, TrunklineError) or not isinstance(error, Exception):
                raise
            why = settings.backend.without_secrets(str(error) or type(error).__name__)
            raise ConfigError(
                f'agents."{handle}".backend: cannot be opened: {why.rstrip(".")}. Nothing was '
                "changed; `trunkline doctor` checks the backend."
            ) from error
        if standing is None:
            self._configured[folded(handle)] = handle
        self._apply(after)

    async def _open(self, entry: _Entry, known: _Entry | None) -> None:
        publishing, leaving = entry.runtime.publishing, self._runtimes.leaving
        switch = partial(self._show, entry, in_place_of=known)
        if known is not None and known.runtime is entry.runtime:
            before = await publishing.replace(entry.agent, switch=switch)
            assert known.agent is before
            leaving.spawn(self._finish(known), name=f"replaced {before.handle}")
            return
        await publishing.publish(entry.agent, continues_tasks=not self._is_publishing_many)
        switch()
        if known is not None:
            # The agent has moved to another store. Its tasks in the old one stay there.
            _ = self._leave(known, grace_s=self.settings.server.drain_s)

    def _made(
        self,
        handle: str,
        settings: Settings,
        code: Agent | None,
        runtime: Runtime,
        *,
        is_default: bool,
        standing: Standing | None = None,
    ) -> _Entry:
        own = settings.agents[handle]
        call_tools = self._tools_of(own)
        tools = model_tools(own, settings) | dict(call_tools)
        resources = resources_for(
            own,
            settings,
            clock=self._clock,
            code=code,
            tools=tools,
            lends_tools=self._lends_tools,
            tap=self._wire.client_of(handle),
        )
        agent = _published(handle, own, make_backend(own, resources), code)
        agent.calls_others = bool(call_tools)
        # While it is private, its endpoints let no caller in as one who is merely signed in.
        agent.is_open = standing is not None
        maker = changed(self._endpoints, settings=settings)
        endpoints = tuple(maker.of(agent, runtime.service, code, is_default=is_default))
        for endpoint in endpoints:
            endpoint.standing = standing
        return _Entry(
            settings=own,
            agent=agent,
            code=code,
            store=own.store or settings.store,
            runtime=runtime,
            standing=standing,
            endpoints=endpoints,
        )

    def _check_is_free(self, entry: _Entry) -> None:
        handle, account = entry.agent.handle, entry.agent.account_id
        there = self._application.taken(entry.endpoints)
        if there is not None:
            raise ConfigError(
                f'agents."{handle}": the agent "{there.agent.handle}" is at one of its addresses. '
                "Choose other paths, and let one agent alone be the default."
            )
        owner = self.accounts.get(account)
        if owner is not None and owner.agent != handle:
            raise ConfigError(
                f'agents."{handle}".account_id: "{owner.agent}" has the account {account} already. '
                "Give each agent an account of its own, or leave account_id out."
            )

    def _show(self, entry: _Entry, *, in_place_of: _Entry | None = None) -> None:
        """Serve the agent from the next request on. No await: both agents are never there at once,
        and never neither."""
        agent = entry.agent
        tap = self._wire.tap_of(agent.handle)
        for endpoint in entry.endpoints:
            endpoint.tap = tap
        if in_place_of is not None:
            self._application.remove(in_place_of.endpoints)
            self.accounts.pop(in_place_of.agent.account_id, None)
            for old in in_place_of.endpoints:
                same = (new for new in entry.endpoints if new.jsonrpc_path == old.jsonrpc_path)
                old.hand_over(next(same, entry.endpoints[0]))
        self._application.add(entry.endpoints)
        self.accounts[agent.account_id] = Account(agent.handle, entry.runtime.queued_replies)
        self._entries[agent.handle] = entry

    def _hide(self, entry: _Entry) -> None:
        """Serve the agent no more from the next request on."""
        handle = entry.agent.handle
        self._application.remove(entry.endpoints)
        for endpoint in entry.endpoints:
            endpoint.withdraw()
        self.accounts.pop(entry.agent.account_id, None)
        self._configured.pop(folded(handle), None)
        del self._entries[handle]
        agents = {name: own for name, own in self.settings.agents.items() if name != handle}
        self._apply(changed(self.settings, agents=agents))

    def _hide_secrets(self, secrets: Iterable[str]) -> None:
        """Keep the secrets of an agent out of the log, and out of what is recorded."""
        known = [*secrets]
        logs.hide(known)
        self._secrets.hide(known)

    def _forget_secrets(self, secrets: Iterable[str]) -> None:
        known = [*secrets]
        logs.forget(known)
        self._secrets.forget(known)

    async def _finish(self, replaced: _Entry) -> None:
        await replaced.runtime.publishing.finish(replaced.agent)
        self._forget_secrets(secrets_in(replaced.settings))

    def _leave(self, entry: _Entry, *, grace_s: float) -> "asyncio.Task[None]":
        """Let the agent finish its turns beside other changes."""
        handle = entry.agent.handle
        entry.agent.is_closed = True

        async def leave() -> None:
            try:
                await entry.runtime.publishing.withdraw(handle, grace_s=grace_s)
            finally:
                del self._leaving[handle]
            self._forget_secrets(secrets_in(entry.settings))
            await self._runtimes.close_unused(entry.store)
            # Once more, because requests that ended meanwhile were counted.
            self._on_change(self.settings)

        task = self._leaving[handle] = self._runtimes.leaving.start(
            leave(), name=f"withdraw {handle}"
        )
        return task

    def _apply(self, settings: Settings) -> None:
        self.settings = settings
        if not self._is_publishing_many:
            self._on_change(settings)


def _callee(entry: _Entry) -> Callee:
    standing = entry.standing
    return Callee(
        agent=entry.agent,
        service=entry.runtime.service,
        sessions=entry.runtime.sessions,
        queued_replies=entry.runtime.queued_replies,
        skills=tuple([skill.id for skill in entry.endpoints[0].card.skills]),
        is_private=standing is not None and standing.is_private,
    )


def _listing(entry: _Entry, base_url: str) -> Listing:
    first = entry.endpoints[0]
    card_path = first.card_paths[0]
    return Listing(
        handle=entry.agent.handle,
        card=first.card,
        card_path=card_path,
        jsonrpc_path=first.jsonrpc_path,
        card_url=(entry.settings.public_url.rstrip("/") or base_url) + card_path,
        standing=entry.standing,
        rest_path=first.rest_path or "",
        versions=tuple(map(str, first.dialects.versions)),
        backend_kind=str(entry.settings.backend.__struct_config__.tag),
    )


def profile_of(settings: AgentSettings) -> Profile:
    """The profile of the agent, with the keys that its limits replace."""
    keys = {} if settings.limits is None else settings.limits.profile_keys()
    return changed(settings.own_profile(), **keys)


def _published(
    handle: str, settings: AgentSettings, backend: Backend, code: Agent | None
) -> PublishedAgent:
    skills: Sequence[SkillSettings | AgentSkill] = settings.skills or (code.skills if code else ())
    accepted = [*input_modes(settings, code), *(m for skill in skills for m in skill.input_modes)]
    produced = [*output_modes(settings, code), *(m for skill in skills for m in skill.output_modes)]
    if isinstance(settings.backend, A2aBackend):
        # The upstream agent checks the media types that the settings do not name.
        accepted = ["*/*"] if settings.input_modes is None else accepted
        produced = ["*/*"] if settings.output_modes is None else produced
    return PublishedAgent(
        handle=handle,
        backend=backend,
        is_isolated=settings.isolated,
        # The media types of every skill count too, because a message does not name its skill.
        input_modes=tuple(dict.fromkeys(accepted)),
        output_modes=tuple(dict.fromkeys(produced)),
        profile=profile_of(settings),
        agent_id=settings.agent_id,
        account_id=settings.account_id,
    )
