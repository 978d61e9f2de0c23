"""`AgentCommands`: what operators on the machine do with agents of the registry."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from trunkline.hub.agent_changes import AgentChanges, NewAgent
from trunkline.hub.agent_views import AgentView, AgentViews
from trunkline.hub.agents import AgentRow, AgentValues, Status, fits
from trunkline.hub.registry import Registry
from trunkline.model.errors import InvalidParams, RouteNotFound
from trunkline.model.principal import EVERYTHING, OPERATOR, Principal

# Whoever may read the data folder of the gateway.
LOCAL_OPERATOR: Final = Principal(id="local:operator", grants=EVERYTHING, roles=(OPERATOR,))


class AddAgent(AgentValues, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    handle: str


class ListAgents(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    owner: str = ""
    # Words that occur in the agents.
    q: str = ""
    # Also with deleted ones if it names that state.
    status: Status | None = None
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 500


class AgentList(Struct, frozen=True, kw_only=True):
    items: list[AgentView]
    # Whether there are more behind the last one.
    has_more: bool


class NameAgent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    handle: str


class ChangeAgent(
    AgentValues, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    handle: str


class AgentCommands(Struct, frozen=True, kw_only=True):
    registry: Registry
    changes: AgentChanges
    views: AgentViews

    async def add(self, given: AddAgent) -> AgentView:
        owner, slash, slug = given.handle.partition("/")
        if not slash:
            raise InvalidParams.at("handle", "must have the form OWNER/SLUG")
        values = {name: getattr(given, name) for name in AgentValues.__struct_fields__}
        new = NewAgent(owner=owner, slug=slug, **values)
        return await self._shown(await self.changes.create(new, by=LOCAL_OPERATOR))

    async def list(self, given: ListAgents) -> AgentList:
        await self.registry.current()
        owner = given.owner.lower()

        def is_wanted(row: AgentRow) -> bool:
            has_status = row.status == given.status if given.status else row.status != "deleted"
            return has_status and (not owner or row.owner.lower() == owner) and fits(row, given.q)

        found = await self.registry.first(given.limit + 1, is_wanted, after=given.after.lower())
        page = found[: given.limit]
        views = await self.views.of(page, LOCAL_OPERATOR)
        return AgentList(items=views, has_more=len(found) > len(page))

    async def show(self, given: NameAgent) -> AgentView:
        await self.registry.current()
        return await self._shown(self._row(given.handle))

    async def change(self, given: ChangeAgent) -> AgentView:
        row = await self.changes.change(
            lambda: self._row(given.handle), given, by=LOCAL_OPERATOR, version=0
        )
        return await self._shown(row)

    async def remove(self, given: NameAgent) -> AgentView:
        row = await self.changes.delete(
            lambda: self._row(given.handle), by=LOCAL_OPERATOR, version=0
        )
        return await self._shown(row)

    async def _shown(self, row: AgentRow) -> AgentView:
        return (await self.views.of([row], LOCAL_OPERATOR))[0]

    def _row(self, handle: str) -> AgentRow:
        row = self.registry.at(handle)
        if row is not None:
            return row
        if taken := self.registry.configured(handle):
            raise RouteNotFound(
                f"{taken} is an agent of the configuration file; change it there, then run "
                "`trunkline reload`"
            )
        raise RouteNotFound(f"there is no agent {handle} in the registry; see `trunkline agent ls`")
