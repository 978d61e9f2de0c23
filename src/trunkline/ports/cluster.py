"""The cluster: which node writes to which lane of a shared store, and what nodes tell each other.

A *node* is one running gateway. It owns a *lane* (the context whose turns run one after the other)
while something of the lane runs or waits, and no other node writes to the tasks of that lane. Every
change of owner raises the lane's *epoch*. An append names lane and epoch, and the store refuses it
with `LeaseLost` when another node has taken the lane since.

A node lives as long as it beats. The lanes of one that stopped beating, or left, go to the nodes
that ask for them. A node that finds itself given up owns nothing any more, and joins again under a
new name.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.ports.store import Scope, StoredTask

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, str, str, str]).decode


def lane_name(scope: Scope, name: str) -> str:
    """The name of a lane in the store: a JSON array of the scope and its name there."""
    return _encode((scope.agent, scope.tenant, scope.principal, name)).decode()


def read_lane_name(lane: str) -> tuple[Scope, str]:
    agent, tenant, principal, name = _decode(lane)
    return Scope(agent, tenant, principal), name


def agent_of(lane: str) -> str:
    return _decode(lane)[0]


class Grant(Struct, frozen=True):
    """A lane that now belongs to this node."""

    lane: str
    epoch: int
    # The tasks of the lane that its last owner left with work to do.
    tasks: tuple[StoredTask, ...] = ()


class Advanced(Struct, frozen=True, gc=False):
    """The journal of a task was committed up to this sequence."""

    task_id: str
    seq: int


class Posted(Struct, frozen=True, gc=False):
    """A request waits in the inbox of a lane."""

    lane: str


class Answered(Struct, frozen=True, gc=False):
    """The outcome of a request that another node received is stored."""

    request_id: str


# Notices save time and nothing else: one that is lost delays its reader until the next sweep.
Notice: TypeAlias = Advanced | Posted | Answered


class Cluster(Protocol):
    async def join(self, hear: Callable[[Notice], None]) -> None:
        """Become a node under a new name. `hear` gets the notices of the others on the loop."""
        ...

    async def beat(self) -> bool:
        """Live on. False when the others have given this node up: its lanes are theirs now."""
        ...

    async def resign(self) -> None:
        """Give up all lanes, and be no node any more."""
        ...

    async def take(self, lane: str) -> Grant | None:
        """Own the lane; None when another living node owns it. A lane that belongs to this node
        already keeps its epoch."""
        ...

    async def take_over(self, *, agents: Collection[str], limit: int) -> Sequence[Grant]:
        """Own lanes of these agents that have work to do and no living owner."""
        ...

    async def leave(self, lanes: Sequence[tuple[str, int]]) -> Sequence[str]:
        """Give up these lanes, each with its epoch (0 for whatever it is), because nothing of them
        runs or waits. Returns those that stay, because a request was posted meanwhile."""
        ...

    async def free(self, lane: str, epoch: int) -> None:
        """Give up a lane with all that waits in it; any node may take it over."""
        ...

    def tell(self, notice: Notice) -> None:
        """Tell the other nodes, soon. Never blocks and never fails."""
        ...
