"""The cluster: which node writes to which lane of a shared store, and what nodes tell each other.

A *node* is one running gateway. It owns a *lane* (the context whose turns run one after the other)
while something of the lane runs or waits, and no other node writes to the tasks of that lane. Every
change of owner raises the lane's *epoch*. An append names lane and epoch, and the store refuses it
with `LeaseLost` when another node has taken the lane since.

A node lives as long as it beats. The lanes of one that stopped beating, or left, go to the nodes
that ask for them, and so do the due records that it has claimed. A node that finds itself given up
owns nothing any more, and joins again under a new name.

A *slot* is the right to run one turn of an agent whose limit holds over all nodes. A node holds its
slots for as long as it lives, or until it gives them back.
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


class Times(Struct, frozen=True):
    """How long nodes wait for each other."""

    # A node beats this often.
    beat_s: float = 2.0
    # The others give up a node that has not beaten for this long.
    lease_s: float = 6.0

    @property
    def trust_s(self) -> float:
        """A node that has not beaten for this long stops its runs, before the others take its
        lanes."""
        return self.lease_s * 5 / 6

    @property
    def sweep_s(self) -> float:
        """A node looks this often for work that no notice told it about."""
        return min(1.0, self.beat_s / 2)


class Grant(Struct, frozen=True):
    """A lane that now belongs to this node."""

    lane: str
    epoch: int
    # The tasks of the lane that its last owner left with work to do.
    tasks: tuple[StoredTask, ...] = ()


class SlotRequest(Struct, frozen=True, kw_only=True):
    """The slots of one agent that a node keeps and those that it wants."""

    agent: str
    # The maximum number of slots of all nodes together.
    limit: int
    # The node gives back the slots that it holds beyond this number.
    keep: int
    # The number of slots that the node has a use for now.
    wanted: int


class SlotShare(Struct, frozen=True):
    """The slots of one agent that a node holds."""

    held: int
    # Whether another node should have one of them as soon as a turn ends.
    is_contended: bool = False


class Advanced(Struct, frozen=True, gc=False, array_like=True, tag="advanced"):
    """The journal of a task was committed up to this sequence."""

    task_id: str
    seq: int


class Posted(Struct, frozen=True, gc=False, array_like=True, tag="posted"):
    """A request waits in the inbox of a lane."""

    lane: str


class Answered(Struct, frozen=True, gc=False, array_like=True, tag="answered"):
    """The outcome of a request that another node received is stored."""

    request_id: str


class SlotsMoved(Struct, frozen=True, gc=False, array_like=True, tag="slots-moved"):
    """A node waits for slots of the agent, or has given some back."""

    agent: str


class RoomLeft(Struct, frozen=True, gc=False, array_like=True, tag="room-left"):
    """A node could run this many more turns of the agent, and has none that waits."""

    agent: str
    turns: int


class LanesFreed(Struct, frozen=True, gc=False, array_like=True, tag="lanes-freed"):
    """A node has freed lanes of the agent, for one that has room."""

    agent: str


class Told(Struct, frozen=True, gc=False, array_like=True, tag="told"):
    """A feature beside the runtime tells its own at the other nodes something."""

    topic: str
    text: str = ""


class NodeLeft(Struct, frozen=True, gc=False, array_like=True, tag="node-left"):
    """A node has resigned, so its lanes can be taken over."""


class Missed(Struct, frozen=True, gc=False, array_like=True, tag="missed"):
    """Notices were lost on their way to this node, of any kind."""


# Notices save time and nothing else: one that is lost delays its reader until the next sweep.
Notice: TypeAlias = (
    Advanced | Posted | Answered | SlotsMoved | RoomLeft | LanesFreed | Told | NodeLeft | Missed
)


class Cluster(Protocol):
    @property
    def times(self) -> Times: ...

    async def join(self, hear: Callable[[Notice], None]) -> None:
        """Become a node under a new name. `hear` gets the notices of the others on the loop."""
        ...

    async def beat(self) -> bool:
        """Live on. False when the others have given this node up: its lanes are theirs now."""
        ...

    async def resign(self) -> None:
        """Give up all lanes, and be no node any more. The other nodes hear of it."""
        ...

    async def take(self, lane: str) -> Grant | None:
        """Own the lane; None when another living node owns it. A lane that belongs to this node
        already keeps its epoch."""
        ...

    async def take_over(self, *, agents: Collection[str], limit: int) -> Sequence[Grant]:
        """Own lanes of these agents that have work to do and no living owner, those that wait
        longest first."""
        ...

    async def leave(self, lanes: Sequence[tuple[str, int]]) -> Sequence[str]:
        """Give up these lanes, each with its epoch (0 for whatever it is), because nothing of them
        runs or waits. Returns those that stay, because a request was posted meanwhile."""
        ...

    async def free(self, lane: str, epoch: int) -> None:
        """Give up a lane with all that waits in it; any node may take it over."""
        ...

    async def share_slots(self, requests: Sequence[SlotRequest]) -> Sequence[SlotShare]:
        """Give back and take slots, and say how many this node holds now, one answer per request.

        All living nodes together hold at most `limit` slots, and a node that is given up holds
        none. A node gets no slot that another one waits for which holds fewer, or as few and waits
        longer; a node that has not asked for a while waits no more.

        The slots of a node are contended when another one still waits after it has taken the slots
        that are free, and then holds none, or fewer by two or more, or when the node has more than
        it wants. They are contended as well when all nodes together hold more than `limit`, because
        the limit was lowered.

        A call that comes late, after a later one of the same node, changes nothing."""
        ...

    def tell(self, notice: Notice) -> None:
        """Tell the other nodes, soon. Never blocks and never fails."""
        ...
