"""`TaskPlaces`: the stores that have tasks of a gateway, and what a caller may read there."""

from collections.abc import Sequence
from typing import Protocol

from trunkline.model.principal import Principal
from trunkline.model.values import TaskStatus
from trunkline.ports.store import Scope, Snapshot, Store


class TaskPlace(Protocol):
    """A store of the gateway, and its tasks in memory."""

    @property
    def name(self) -> str:
        """Tells the store from the others of the gateway, also after a restart."""
        ...

    @property
    def store(self) -> Store: ...

    async def folded(self, scope: Scope, task_id: str) -> Snapshot:
        """The task as committed. Raises TaskNotFound, also for one that its agent keeps no longer,
        and StoreError."""
        ...

    def status(self, scope: Scope, task_id: str) -> TaskStatus | None:
        """The committed status of a task in memory."""
        ...

    def position(self, scope: Scope, task_id: str) -> int | None:
        """The place in the queue of a task that waits at this node, 1 for the next to start."""
        ...


class TaskPlaces(Protocol):
    def places(self) -> Sequence[TaskPlace]:
        """The stores that are open."""
        ...

    def may_read(self, by: Principal, scope: Scope) -> bool:
        """Whether the caller may read the tasks of the scope: its own ones of agents that it may
        read, and for operators all."""
        ...

    def agents_read_by(self, by: Principal) -> tuple[str, ...] | None:
        """The agents whose tasks of its own the caller may read; None for all agents."""
        ...
