"""Maintenance of the stores of a gateway: check, migrate, prune, settle orphans."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import Struct

from trunkline.app import postgres
from trunkline.app.adapters import adopting_scope, make_store
from trunkline.clock import SystemClock, Uuid7Ids
from trunkline.engine.recovery import Recovery, recover
from trunkline.engine.transitions import Step
from trunkline.model.errors import ConfigError
from trunkline.model.handles import EVERY
from trunkline.model.profile import Profile
from trunkline.model.values import HAS_WORK, TaskState
from trunkline.ports.store import OperatorQuery, Store, StoredTask, all_tasks
from trunkline.runtime.live_task import say
from trunkline.runtime.retention import (
    Gone,
    agents_with_records,
    count_prunable,
    forgets,
    prune,
)
from trunkline.runtime.runtime import Runtime
from trunkline.settings import Settings, StoreSettings
from trunkline.settings.backends import kind_of
from trunkline.settings.stores import database_path, place_of
from trunkline.stores.findings import Findings
from trunkline.stores.jsonfile.check import check as check_folder
from trunkline.stores.sqlite.check import check as check_database
from trunkline.stores.sqlite.schema import shipped_schema

T = TypeVar("T")
_PAGE = 100


class Pruned(Struct, frozen=True):
    """`gone` is None for an agent without retention; `left` is the number of remaining tasks."""

    agent: str
    gone: Gone | None
    left: int


def check_stores(settings: Settings) -> list[Findings]:
    """Check every store by the check of its kind. Raises StoreError if a check cannot run."""
    return [_check_store(settings, store) for store in existing_stores(settings)]


def _check_store(settings: Settings, store: StoreSettings) -> Findings:
    if store.kind == "postgres":
        return asyncio.run(postgres.check(store))
    path = database_path(store)
    if store.kind == "sqlite":
        return check_database(path)
    adopts = adopting_scope(store, agent=settings.adopting_agent(store))
    return asyncio.run(check_folder(path, clock=SystemClock(), adopts=adopts))


class Migrated(Struct, frozen=True):
    place: str
    what: str


def migrate_stores(settings: Settings) -> list[Migrated]:
    """Bring every store to the format of this release. Raises StoreError."""
    return [
        Migrated(place_of(store), asyncio.run(_migrate_store(settings, store)))
        for store in existing_stores(settings)
    ]


async def _migrate_store(settings: Settings, store: StoreSettings) -> str:
    if store.kind == "postgres":
        return await postgres.migrate(store)
    # To open it is to migrate it.
    async with _opened(settings, store):
        pass
    if store.kind == "sqlite":
        return f"has schema {shipped_schema().version}"
    return "has the format of this release"


def prune_stores(
    settings: Settings,
    *,
    agent: str = "",
    older_than_s: float | None = None,
    keep: int | None = None,
    dry_run: bool = False,
) -> list[Pruned]:
    """Delete ended tasks and old answers without a task, of one agent or of all. Without bounds,
    the profile of each agent decides."""
    has_bounds = older_than_s is not None or keep is not None

    async def work(store: Store, handles: Iterable[str]) -> list[Pruned]:
        now_ms = SystemClock().now_ms()
        done = []
        for handle in handles:
            age_s, most = older_than_s, keep
            profile = profile_of(settings, handle)
            if not has_bounds and profile is not None:
                age_s = profile.retention_s or None
                most = profile.retention_max_tasks or None
            before_ms = None if age_s is None else now_ms - int(age_s * 1000)
            act = count_prunable if dry_run else prune
            gone = await act(store, handle, before_ms=before_ms, keep=most)
            left = await store.count_ended(handle) - (gone.tasks if dry_run else 0)
            is_bound = has_bounds or (profile is not None and forgets(profile))
            done.append(Pruned(handle, gone if is_bound else None, left))
        return done

    return asyncio.run(_in_each_store(settings, agent, work))


def settle_stores(
    settings: Settings, *, agent: str = "", reason: str = "", dry_run: bool = False
) -> list[StoredTask]:
    """Fail orphaned tasks: those that a restart leaves as they are and that never run again."""

    for each in settings.stores():
        if each.kind == "postgres" and not dry_run:
            # A gateway owns the lanes of the tasks that it runs, and this process owns none.
            asyncio.run(postgres.require_unused(each))

    async def work(store: Store, _: Iterable[str]) -> list[StoredTask]:
        query = OperatorQuery(agent=agent, states=tuple(HAS_WORK), limit=_PAGE)
        found = [
            stored
            async for stored in all_tasks(store, query)
            if _is_orphan(settings, stored, is_named=bool(agent))
        ]
        if not dry_run:
            await _fail(store, found, reason)
        return found

    return asyncio.run(_in_each_store(settings, agent, work))


def profile_of(settings: Settings, handle: str) -> Profile | None:
    """The profile of an agent, which may be one of many in a Python target."""
    of_owner = f"{handle.partition('/')[0]}/{EVERY}"
    found = settings.agents.get(handle) or settings.agents.get(of_owner)
    return None if found is None else found.own_profile()


async def _in_each_store(
    settings: Settings,
    agent: str,
    work: Callable[[Store, list[str]], Awaitable[list[T]]],
) -> list[T]:
    done: list[T] = []
    known: set[str] = set()
    for store_settings in existing_stores(settings):
        async with _opened(settings, store_settings) as store:
            handles = {scope.agent for scope in await store.scopes()}
            handles |= await agents_with_records(store)
            known |= handles
            done += await work(store, [each for each in sorted(handles) if agent in ("", each)])
    if agent and agent not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ConfigError(f"--agent {agent}: has no tasks here. Agents that have: {names}.")
    return done


def existing_stores(settings: Settings) -> list[StoreSettings]:
    kept = [store for store in settings.stores() if store.kind != "memory"]
    if not kept:
        raise ConfigError(
            "the store is memory, which is gone when the gateway stops. "
            'Give a file with --db sqlite:///FILE, or set kind = "sqlite" in [store].'
        )
    existing = [
        store for store in kept if store.kind == "postgres" or database_path(store).exists()
    ]
    if not existing:
        raise ConfigError(
            f"there is no store at {database_path(kept[0])}. Name the gateway's own with "
            "--config FILE, --data DIR or --db URL."
        )
    return existing


@asynccontextmanager
async def _opened(settings: Settings, of: StoreSettings) -> AsyncIterator[Store]:
    store = make_store(of, agent=settings.adopting_agent(of), clock=SystemClock())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _is_orphan(settings: Settings, stored: StoredTask, *, is_named: bool) -> bool:
    profile = profile_of(settings, stored.scope.agent)
    if profile is None:
        # Another gateway may publish this agent, so the operator must name it.
        return is_named
    found = settings.agents.get(stored.scope.agent)
    can_resume = found is not None and kind_of(found.backend).can_resume
    return recover(stored.state, profile.on_restart, can_resume=can_resume) is Recovery.LEAVE


async def _fail(store: Store, found: list[StoredTask], reason: str) -> None:
    runtime = Runtime(store=store, clock=SystemClock(), ids=Uuid7Ids(), agents=())
    for start in range(0, len(found), _PAGE):
        step = []
        for stored in found[start : start + _PAGE]:
            live = await runtime.registry.load(stored.scope, stored.task_id)
            was = "working" if live.state is TaskState.WORKING else "submitted"
            text = reason or f"This task was left {was} by a restart, and an operator ended it."
            runtime.recorder.move(live, Step.FAIL, say(live, f"settled.{live.seq}", text))
            step.append(live)
        for live in step:
            await runtime.journal.durable(live)
