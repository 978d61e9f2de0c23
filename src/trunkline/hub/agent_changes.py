"""`AgentChanges`: creates, changes and deletes agents of the registry for a caller.

The HTTP interface and the commands of operators both use it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import UNSET, Struct
from msgspec.structs import replace

from trunkline.config.problems import InvalidSettings, Problem, dotted
from trunkline.hub.agent_tables import (
    Tables,
    check_tables,
    confined,
    masked,
    published_table,
    sealed,
    tables_of,
)
from trunkline.hub.agents import AgentRow, AgentValues, changed_row, check_handle, may_know
from trunkline.hub.registry import Registry
from trunkline.model.errors import (
    ConfigError,
    Conflict,
    FieldViolation,
    InvalidParams,
    PermissionDenied,
    RecordConflict,
    RouteNotFound,
)
from trunkline.model.principal import OPERATOR, Principal, manages
from trunkline.ports.clock import Clock, Ids

# Another editor may come first; without a version of the caller the change is made again.
_ATTEMPTS: Final = 5


class AgentChecks(Protocol):
    """The rules of the configuration, for the table of one agent."""

    def secrets(self, handle: str, table: Mapping[str, Any]) -> Sequence[str]:
        """The secrets in the table. Raises ConfigError for a table that breaks a rule."""
        ...


class NewAgent(AgentValues, frozen=True, kw_only=True, rename="camel"):
    # The one that the caller manages, if it is left out.
    owner: str = ""
    slug: str


async def nothing(_: str) -> None:
    """For a hub whose agents have nothing elsewhere."""


class AgentChanges(Struct, frozen=True, kw_only=True):
    registry: Registry
    checks: AgentChecks
    clock: Clock
    ids: Ids
    # Kinds of backends that callers who are no operators may use.
    owner_backends: tuple[str, ...] = ()
    # Kinds that call the URL in their table, and take the key `public_only`.
    calling_backends: frozenset[str] = frozenset()
    # Called with the handle of an agent that was deleted.
    on_deleted: Callable[[str], Awaitable[object]] = nothing

    async def create(self, new: NewAgent, *, by: Principal) -> AgentRow:
        """Raises InvalidParams, PermissionDenied, Conflict or StoreError."""
        owner = new.owner or _own(by)
        check_handle(owner, new.slug)
        if not manages(by, owner):
            raise PermissionDenied(f"This credential does not manage the agents of {owner[:64]}")
        if new.backend is UNSET:
            raise InvalidParams.at("backend", 'is missing, for example {"kind": "echo"}')
        handle = f"{owner}/{new.slug}"
        await self.registry.current()
        before = self.registry.at(handle)
        if taken := self.registry.configured(handle):
            raise Conflict(f"The configuration of the gateway has the agent {taken} already")
        if before is not None and before.status != "deleted":
            raise Conflict(f"There is an agent {before.handle} already; change it instead")
        known = self.registry.owner_like(owner)
        if known not in ("", owner):
            raise Conflict(
                f"There is an owner {known}, whose name differs from {owner} in case alone; choose "
                "another name"
            )
        now_ms = self.clock.now_ms()
        bare = AgentRow(
            id=before.id if before is not None else f"agt_{self.ids.new().replace('-', '')}",
            owner=owner,
            slug=new.slug,
            name=new.slug,
            status="draft",
            tables=sealed(Tables({})),
            shown_backend={},
            kind="",
            created_ms=now_ms if before is None else before.created_ms,
            updated_ms=now_ms,
            updated_by=by.id,
        )
        row = self._with(bare, new, by=by)
        try:
            return await self.registry.write(row, before=before)
        except RecordConflict:
            raise Conflict(f"There is an agent {handle} already; change it instead") from None

    async def change(
        self, find: Callable[[], AgentRow], values: AgentValues, *, by: Principal, version: int
    ) -> AgentRow:
        """`find` gives the row at the moment. `version` is the one that the caller has read, or 0
        for any.

        Raises InvalidParams, PermissionDenied, RouteNotFound, Conflict or StoreError.
        """

        def changed(before: AgentRow) -> AgentRow:
            # A change of a deleted agent restores it.
            base = replace(before, status="draft") if before.status == "deleted" else before
            return self._with(base, values, by=by)

        return await self._write(find, changed, by=by, version=version)

    async def delete(
        self, find: Callable[[], AgentRow], *, by: Principal, version: int
    ) -> AgentRow:
        """Raises PermissionDenied, RouteNotFound, Conflict or StoreError."""

        def deleted(before: AgentRow) -> AgentRow:
            now_ms = self.clock.now_ms()
            return replace(before, status="deleted", updated_ms=now_ms, updated_by=by.id)

        row = await self._write(find, deleted, by=by, version=version)
        await self.on_deleted(row.handle)
        return row

    async def _write(
        self,
        find: Callable[[], AgentRow],
        changed: Callable[[AgentRow], AgentRow],
        *,
        by: Principal,
        version: int,
    ) -> AgentRow:
        for attempt in range(_ATTEMPTS):
            await self.registry.current()
            before = find()
            if not manages(by, before.owner):
                if not may_know(before, by):
                    raise RouteNotFound("There is no such agent")
                raise PermissionDenied(f"This credential does not manage {before.handle}")
            if version and version != before.version:
                raise _changed_meanwhile(before)
            try:
                return await self.registry.write(changed(before), before=before)
            except RecordConflict:
                await self.registry.changes.look()
                if version or attempt == _ATTEMPTS - 1:
                    raise _changed_meanwhile(find()) from None
        raise AssertionError("the last attempt returns or raises")

    def _with(self, base: AgentRow, values: AgentValues, *, by: Principal) -> AgentRow:
        """The row with the values, checked as a whole if it is to be published."""
        row = changed_row(base, values)
        now_ms = self.clock.now_ms()
        row = replace(row, updated_ms=now_ms, updated_by=by.id)
        has_tables = values.backend is not UNSET or values.settings is not UNSET
        if has_tables:
            before = tables_of(base)
            given = Tables(
                before.backend
                if values.backend is UNSET
                else confined(values.backend, by=by, calling=self.calling_backends),
                before.settings if values.settings is UNSET else values.settings,
            )
            check_tables(
                Tables(
                    {"kind": base.kind} if values.backend is UNSET else given.backend,
                    {} if values.settings is UNSET else given.settings,
                ),
                by=by,
                # The kind that an operator chose may stay.
                owner_backends=(*self.owner_backends, *([base.kind] * (values.backend is UNSET))),
            )
            row = replace(row, tables=sealed(given), kind=str(given.backend.get("kind", "")))
        if row.is_published and (taken := self.registry.configured(row.handle)):
            raise Conflict(
                f"The configuration of the gateway has the agent {taken}; take it out of the file, "
                "or publish this one under another handle"
            )
        # Whatever a rule of the gateway refuses today, an agent can be unpublished.
        secrets = self._check(row) if row.is_published or has_tables else ()
        if has_tables:
            tables = tables_of(row)
            row = replace(
                row,
                shown_backend=masked(tables.backend, secrets),
                shown_settings=masked(tables.settings, secrets),
            )
        return row

    def _check(self, row: AgentRow) -> Sequence[str]:
        try:
            return self.checks.secrets(row.handle, published_table(row))
        except InvalidSettings as error:
            violations = tuple(_violation(problem) for problem in error.problems)
            text = "; ".join(f"{each.field}: {each.description}" for each in violations)
            raise InvalidParams(text, violations=violations) from None
        except ConfigError as error:
            raise InvalidParams(error.message) from None


def _own(by: Principal) -> str:
    """The owner whose agents the caller manages."""
    owners = [role.removeprefix("owner:") for role in by.roles if role.startswith("owner:")]
    if len(owners) == 1:
        return owners[0]
    if not owners and OPERATOR not in by.roles:
        raise PermissionDenied("This credential manages no agents")
    raise InvalidParams.at("owner", "is missing; name the owner of the agent")


def _violation(problem: Problem) -> FieldViolation:
    # Without `agents."owner/slug"`, which is not part of the request.
    path = problem.path[2:] if problem.path[:1] == ("agents",) else problem.path
    known = ("backend", "name", "description", "skills", "profile")
    if path and path[0] not in known:
        path = ("settings", *path)
    value = f" ({problem.value})" if problem.value else ""
    return FieldViolation(
        dotted(path) or "backend", f"{problem.what}{value}. {problem.remedy}".rstrip(". ")
    )


def _changed_meanwhile(now: AgentRow) -> Conflict:
    return Conflict(
        f"The agent {now.handle} was changed meanwhile: it has version {now.version} now. Read it "
        "again before you change it"
    )
