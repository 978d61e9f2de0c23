"""`Reload`: reads the configuration again and applies the changes to the running gateway."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trunkline.app.adapters import load_agents
from trunkline.app.card_signer import CardSigner, card_signer
from trunkline.app.cards import addresses_of
from trunkline.app.gateway import Gateway
from trunkline.app.model_tools import uses_tools
from trunkline.backends.python import Agent
from trunkline.config.problems import InvalidSettings
from trunkline.model.errors import TrunklineError
from trunkline.model.handles import folded
from trunkline.settings import AgentSettings, Settings
from trunkline.settings.changes import Comparison, compare
from trunkline.settings.rules import find_problems

_log = logging.getLogger("trunkline.reload")

# Reads the settings of the gateway again, with notes for the operator. Raises ConfigError.
Load: TypeAlias = Callable[[], tuple[Settings, tuple[str, ...]]]

# Tables whose change concerns the tools that some agents use.
_TOOL_TABLES = ("targets", "remote")


class Reloaded(Struct, frozen=True, kw_only=True, rename="camel"):
    """The changes that a reload has made, and those that it could not make."""

    published: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    # Agents that stay and have other addresses, for example because another is the default.
    moved: tuple[str, ...] = ()
    # Keys outside of the agents that are in force now, and those that need a restart.
    applied: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()
    # Agents that could not be changed, with the reason. They are as they were before.
    failed: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    # Seconds in which the turns of withdrawn agents must end.
    grace_s: float = 0.0


class Reload:
    """Called for each reload; one runs at a time."""

    def __init__(
        self,
        gateway: Gateway,
        load: Load,
        *,
        local_url: str,
        on_apply: Callable[[Settings], None] = lambda _: None,
    ) -> None:
        """`local_url` is the address in cards without a `public_url`. `on_apply` is called with
        the new settings, for parts of the process that are not parts of the gateway."""
        self._gateway = gateway
        self._load = load
        self._local_url = local_url
        self._on_apply = on_apply
        # The agents of the file. Others may be published, and a reload leaves them alone.
        self._configured = {
            handle: agent
            for handle, agent in gateway.settings.agents.items()
            if gateway.directory.standing_of(handle) is None
        }
        self._running = asyncio.Lock()

    async def __call__(self) -> Reloaded:
        """Raises ConfigError if the file is not valid; nothing is changed then."""
        async with self._running:
            try:
                done = await self._reload()
            except TrunklineError as error:
                _log.error("the configuration is not reloaded", extra={"reason": error.message})
                raise
        told = {
            "published": done.published,
            "replaced": done.replaced,
            "withdrawn": done.withdrawn,
            "moved": done.moved,
            "applied": done.applied,
            "needs_restart": done.needs_restart,
        }
        _log.info("the configuration is reloaded", extra={k: v for k, v in told.items() if v})
        for handle, reason in done.failed.items():
            _log.error("an agent is not changed", extra={"agent": handle, "reason": reason})
        return done

    async def _reload(self) -> Reloaded:
        running = self._gateway.settings
        # In threads, because files may be slow and Python agents take long to import.
        given, notes = await asyncio.to_thread(self._load)
        found = compare(given, running)
        _check(found)
        wanted, code = await asyncio.to_thread(load_agents, found.settings)
        wanted = wanted.with_default()
        base_url = wanted.server.public_url.rstrip("/") or self._local_url
        signer = None
        if wanted.server.card_key_path:
            signer = card_signer(wanted.server.card_key_path, base_url=base_url)
        # Everything is checked. From here on, an error is one of a single agent.
        directory, front = self._gateway.directory, self._gateway.front
        makes_new_cards = _card_basis(wanted, base_url, signer) != _card_basis(
            running, directory.base_url, front.signer
        )
        front.signer = signer
        self._apply(replace(wanted, agents=running.agents), base_url)
        # Agents that were published by others stay, and the file cannot take their handles.
        others = {
            handle: agent
            for handle, agent in directory.settings.agents.items()
            if handle in directory and handle not in self._configured
        }
        taken = set(map(folded, others))
        failed = {
            handle: f'agents."{handle}": the handle is taken by an agent that is not in this file.'
            for handle in wanted.agents
            if folded(handle) in taken
        }
        free = {h: agent for h, agent in wanted.agents.items() if h not in failed}
        wanted = replace(wanted, agents=free | others)
        changes = self._changes(found, others, wanted)
        for handle in changes.withdrawn:
            _ = await directory.begin_withdrawal(handle, grace_s=wanted.server.drain_s)
        moved = self._moved(wanted, changes)
        # Before other agents take the addresses that these lose.
        renewed = dict.fromkeys((*moved, *(changes.kept if makes_new_cards else ())))
        failed |= await directory.readdress(
            {handle: changes.is_default(handle) for handle in renewed}, settings=wanted
        )
        failed |= await self._put(wanted, code, changes)
        await self._gateway.routing.apply(wanted)
        kept = {h: self._configured[h] for h in failed if h in self._configured}
        agents = {h: own for h, own in wanted.agents.items() if h not in others and h not in failed}
        self._configured = agents | kept
        self._apply(replace(wanted, agents=self._configured | others), base_url)
        return Reloaded(
            published=tuple(h for h in changes.published if h not in failed),
            replaced=tuple(h for h in changes.replaced if h not in failed),
            withdrawn=changes.withdrawn,
            moved=tuple(h for h in moved if h not in failed),
            applied=found.applied,
            needs_restart=found.needs_restart,
            failed=failed,
            notes=notes,
            grace_s=wanted.server.drain_s,
        )

    def _apply(self, settings: Settings, base_url: str) -> None:
        gateway = self._gateway
        gateway.directory.configure(settings, base_url=base_url, signer=gateway.front.signer)
        gateway.front.apply(settings)
        self._on_apply(settings)

    def _changes(
        self, found: Comparison, others: dict[str, AgentSettings], wanted: Settings
    ) -> "_Changes":
        directory = self._gateway.directory
        before = {h: own for h, own in self._configured.items() if h in directory} | others
        after = {h: own for h, own in wanted.agents.items() if not own.unavailable}
        changed_tables = {key.partition(".")[0] for key in found.applied}
        has_new_tools = bool(changed_tables.intersection(_TOOL_TABLES))
        has_new_network = "network" in changed_tables

        def is_replaced(handle: str) -> bool:
            own, then = after[handle], before[handle]
            # What is the default agent decides about addresses alone.
            is_same = replace(own, default=then.default) == then
            return not is_same or has_new_network or (has_new_tools and uses_tools(own))

        both = [handle for handle in after if handle in before]
        of_file = {h: own for h, own in wanted.agents.items() if h not in others}
        return _Changes(
            before=before,
            defaults=frozenset(
                (
                    replace(wanted, agents=of_file).default_agent(),
                    *(handle for handle, own in others.items() if own.default),
                )
            ),
            withdrawn=tuple(handle for handle in before if handle not in after),
            published=tuple(handle for handle in after if handle not in before),
            replaced=tuple(filter(is_replaced, both)),
            kept=tuple(handle for handle in both if not is_replaced(handle)),
        )

    def _moved(self, wanted: Settings, changes: "_Changes") -> tuple[str, ...]:
        """The agents that stay, whether replaced or not, at other addresses."""
        default_before = replace(wanted, agents=self._configured).default_agent()

        def moves(handle: str) -> bool:
            then, now = changes.before[handle], wanted.agents[handle]
            was_default = handle == default_before or (
                handle not in self._configured and then.default
            )
            old = addresses_of(handle, then, is_default=was_default)
            return old != addresses_of(handle, now, is_default=changes.is_default(handle))

        return tuple(filter(moves, (*changes.kept, *changes.replaced)))

    async def _put(
        self, wanted: Settings, code: Mapping[str, Agent], changes: "_Changes"
    ) -> dict[str, str]:
        failed: dict[str, str] = {}
        directory = self._gateway.directory
        for handle in (*changes.replaced, *changes.published):
            is_known = handle in directory
            own = code.get(handle) or (directory.code_of(handle) if is_known else None)
            try:
                await directory.put(
                    handle,
                    wanted.agents[handle],
                    own,
                    is_default=changes.is_default(handle),
                    replace=handle in changes.replaced,
                    standing=directory.standing_of(handle),
                )
            except TrunklineError as error:
                failed[handle] = error.message
        return failed


class _Changes(Struct, frozen=True, kw_only=True):
    """The handles of agents in a file that was read again."""

    # The agents that are published now.
    before: Mapping[str, AgentSettings]
    # The agents at the root, where there are any.
    defaults: frozenset[str]
    withdrawn: tuple[str, ...]
    published: tuple[str, ...]
    replaced: tuple[str, ...]
    kept: tuple[str, ...]

    def is_default(self, handle: str) -> bool:
        return handle in self.defaults


def _check(found: Comparison) -> None:
    """The file is valid by itself; it must also be valid beside the keys that stay as they are."""
    problems = list(find_problems(found.settings, []))
    if problems:
        keys = ", ".join(found.needs_restart)
        raise InvalidSettings(problems, source=f"the file, without a restart for {keys},")


def _card_basis(settings: Settings, base_url: str, signer: CardSigner | None) -> object:
    """What the cards and limits of all agents depend on."""
    server = settings.server
    return (
        settings.auth,
        settings.allows_anonymous(),
        (server.max_body_bytes, server.max_json_depth),
        base_url,
        None if signer is None else (signer.kid, signer.jku),
    )
