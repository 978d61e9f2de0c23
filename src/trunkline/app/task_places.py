"""`GatewayTaskPlaces`: the stores of a gateway with their tasks, and who may read them."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from trunkline.app.runtimes import Runtimes
from trunkline.config.urls import postgres_place
from trunkline.engine.access import is_unrestricted, why_denied
from trunkline.model.calls import Operation
from trunkline.model.principal import OPERATOR, Principal
from trunkline.model.values import TaskStatus
from trunkline.ports.store import Scope, Snapshot, Store
from trunkline.ports.task_places import TaskPlace
from trunkline.routing.callees import Callee
from trunkline.routing.rights import Rights
from trunkline.runtime.runtime import Runtime
from trunkline.settings import StoreSettings


class RuntimeTasks(Struct, frozen=True, eq=False):
    """It implements `ports.task_places.TaskPlace`."""

    name: str
    runtime: Runtime

    @property
    def store(self) -> Store:
        return self.runtime.store

    async def folded(self, scope: Scope, task_id: str) -> Snapshot:
        registry = self.runtime.registry
        live = registry.live(scope, task_id)
        # A task that this node follows may be older than what the store has.
        if live is not None and live.lease is not None:
            return live.view()
        return await registry.stored_view(scope, task_id)

    def status(self, scope: Scope, task_id: str) -> TaskStatus | None:
        live = self.runtime.registry.live(scope, task_id)
        return None if live is None else live.committed().status

    def position(self, scope: Scope, task_id: str) -> int | None:
        live = self.runtime.registry.live(scope, task_id)
        return None if live is None else live.position


class GatewayTaskPlaces(Struct, frozen=True, kw_only=True, eq=False):
    """It implements `ports.task_places.TaskPlaces`."""

    runtimes: Runtimes
    rights: Rights
    # The published agents.
    callees: Callable[[], Iterable[Callee]]

    def places(self) -> Sequence[TaskPlace]:
        return [RuntimeTasks(_name(store), each) for store, each in self.runtimes.by_store()]

    def may_read(self, by: Principal, scope: Scope) -> bool:
        return self.rights.may(by, scope)

    def agents_read_by(self, by: Principal) -> tuple[str, ...] | None:
        if OPERATOR in by.roles or is_unrestricted(by):
            return None
        found = {
            callee.agent.handle: callee.agent.is_open and not callee.is_private
            for callee in self.callees()
        }
        # Tasks of an agent that was withdrawn are there as well.
        named = [grant.agent for grant in (*by.grants, *(by.within or ()))]
        for handle in named:
            if not handle.endswith("*"):
                found.setdefault(handle, False)
        return tuple(
            [
                handle
                for handle, is_open in found.items()
                if why_denied(by, handle, Operation.GET_TASK, is_open=is_open) is None
            ]
        )


def _name(store: StoreSettings) -> str:
    url = "" if store.url is None else store.url.reveal()
    place = f"{store.kind} {store.path} {postgres_place(url) if url else ''}"
    return hashlib.sha256(place.encode()).hexdigest()[:12]
