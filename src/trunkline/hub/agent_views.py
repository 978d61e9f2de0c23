"""`AgentView`: an agent as the HTTP interface and the commands show it."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

from trunkline.hub.agent_limits import LimitsBody
from trunkline.hub.agents import AgentRow, Skill, Status, Visibility
from trunkline.hub.figures import AgentFigures, Figures
from trunkline.hub.registry import Registry
from trunkline.model.principal import OPERATOR, Principal, manages
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.directory import Directory, Listing, Load

_NO_FIGURES: Final = AgentFigures(queries_today=0, queries_all_time=0)


class QueueView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The turns of an agent at this gateway."""

    running: int
    waiting: int


class AgentView(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    handle: str
    owner: str
    slug: str
    name: str
    tagline: str
    description: str
    status: Status
    visibility: Visibility
    # Agents of a configuration file are changed there.
    source: Literal["registry", "configuration", "temporary"]
    # Rises with every change; 0 for an agent of a configuration file.
    version: int
    # Paths of the gateway.
    card_path: str
    jsonrpc_path: str
    # Empty for an agent that is not served over HTTP+JSON.
    rest_path: str
    # The versions of A2A in which it can be called; none while it is not published.
    versions: tuple[str, ...]
    online: bool
    queue: QueueView
    skills: tuple[Skill, ...]
    isolated: bool | UnsetType = UNSET
    daily_budget_queries: int | UnsetType = UNSET
    concurrency_cap: int | UnsetType = UNSET
    # Absent where the hub counts no queries.
    queries_today: int | UnsetType = UNSET
    queries_all_time: int | UnsetType = UNSET
    last_query_at: str | UnsetType | None = UNSET
    # For operators, also of agents of the configuration.
    backend_kind: str | UnsetType = UNSET
    # The rest is for those who manage the agent.
    limits: LimitsBody | UnsetType = UNSET
    profile: str | UnsetType = UNSET
    # With `***` in place of secrets.
    backend: dict[str, Any] | UnsetType = UNSET
    settings: dict[str, Any] | UnsetType = UNSET
    # Why a published agent cannot be called; empty when it can.
    problem: str | UnsetType = UNSET
    created_at: str | UnsetType = UNSET
    updated_at: str | UnsetType = UNSET
    updated_by: str | UnsetType = UNSET


def configured_id(handle: str) -> str:
    """The id of an agent of the configuration, which has no record."""
    return f"agt_{hashlib.sha256(handle.encode()).hexdigest()[:32]}"


def _is_operator(caller: Principal | None) -> bool:
    return caller is not None and OPERATOR in caller.roles


class AgentViews(Struct, frozen=True, kw_only=True):
    # None at a gateway without a hub, which has agents of the configuration alone.
    registry: Registry | None
    # None where no gateway runs.
    directory: Directory | None
    figures: Figures | None = None

    async def of(self, rows: Sequence[AgentRow], caller: Principal | None) -> list[AgentView]:
        """Raises StoreError."""
        figures = await self._figures([row.handle for row in rows])
        online = await asyncio.gather(*(self._is_online(row) for row in rows))
        return [
            self._view(row, caller, is_online, figures)
            for row, is_online in zip(rows, online, strict=True)
        ]

    async def _is_online(self, row: AgentRow) -> bool:
        if self.directory is None or not row.is_published:
            return False
        return await self.directory.is_online(row.handle)

    async def _figures(self, handles: Sequence[str]) -> Mapping[str, AgentFigures]:
        return {} if self.figures is None else await self.figures.of(handles)

    def _view(
        self,
        row: AgentRow,
        caller: Principal | None,
        is_online: bool,
        figures: Mapping[str, AgentFigures],
    ) -> AgentView:
        is_manager = caller is not None and manages(caller, row.owner)
        address = f"/api/a2a/v1/agents/{row.handle}"
        listed = None
        if self.directory is not None and row.is_published:
            listed = self.directory.find(row.handle)
        given: dict[str, Any] = {}
        if is_manager:
            given = {
                "limits": LimitsBody.of(row.limits),
                "profile": row.profile,
                "backend": row.shown_backend,
                "settings": row.shown_settings,
                "problem": "" if self.registry is None else self.registry.problem(row),
                "created_at": format_timestamp(row.created_ms),
                "updated_at": format_timestamp(row.updated_ms),
                "updated_by": row.updated_by,
            }
        if _is_operator(caller):
            given["backend_kind"] = row.kind
        return AgentView(
            id=row.id,
            handle=row.handle,
            owner=row.owner,
            slug=row.slug,
            name=row.name,
            tagline=row.tagline,
            description=row.description,
            status=row.status,
            visibility=row.visibility,
            source="registry",
            version=row.version,
            card_path=f"{address}/agent-card.json",
            jsonrpc_path=address,
            rest_path="" if listed is None else listed.rest_path,
            versions=() if listed is None else listed.versions,
            online=is_online,
            queue=self._queue(row.handle),
            skills=row.skills,
            isolated=row.isolated,
            daily_budget_queries=row.limits.daily_budget_queries,
            concurrency_cap=row.limits.concurrency_cap,
            **self._counted(row.handle, figures),
            **given,
        )

    def _counted(self, handle: str, figures: Mapping[str, AgentFigures]) -> dict[str, Any]:
        if self.figures is None:
            return {}
        found = figures.get(handle, _NO_FIGURES)
        last_ms = found.last_query_ms
        return {
            "queries_today": found.queries_today,
            "queries_all_time": found.queries_all_time,
            "last_query_at": None if last_ms is None else format_timestamp(last_ms),
        }

    async def of_configured(
        self, listed: Sequence[Listing], caller: Principal | None
    ) -> list[AgentView]:
        """Agents of the configuration. Everyone may read their cards."""
        figures = await self._figures([each.handle for each in listed])
        online: Sequence[bool] = [False] * len(listed)
        if self.directory is not None:
            online = await asyncio.gather(*(self.directory.is_online(e.handle) for e in listed))
        return [
            self._configured_view(each, caller, is_online, figures)
            for each, is_online in zip(listed, online, strict=True)
        ]

    def _queue(self, handle: str) -> QueueView:
        load = Load(0, 0) if self.directory is None else self.directory.load(handle)
        return QueueView(running=load.running, waiting=load.waiting)

    def _configured_view(
        self,
        listed: Listing,
        caller: Principal | None,
        is_online: bool,
        figures: Mapping[str, AgentFigures],
    ) -> AgentView:
        owner, _, slug = listed.handle.partition("/")
        card = listed.card
        skills = tuple(
            Skill(id=s.id, name=s.name, description=s.description, tags=s.tags) for s in card.skills
        )
        return AgentView(
            id=configured_id(listed.handle),
            handle=listed.handle,
            owner=owner,
            slug=slug,
            name=card.name,
            tagline="",
            description=card.description,
            status="published",
            visibility="public" if listed.standing is None else "private",
            source="configuration" if listed.standing is None else "temporary",
            version=0,
            card_path=listed.card_path,
            jsonrpc_path=listed.jsonrpc_path,
            rest_path=listed.rest_path,
            versions=listed.versions,
            online=is_online,
            queue=self._queue(listed.handle),
            skills=skills,
            backend_kind=listed.backend_kind if _is_operator(caller) else UNSET,
            **self._counted(listed.handle, figures),
        )
