"""`PublishedAgent`: an agent with its backend, profile and lanes."""

from msgspec import Struct

from trunkline.engine.admission import MessageRules
from trunkline.engine.decisions import style_of
from trunkline.engine.lanes import Lanes
from trunkline.engine.media_types import AcceptedModes
from trunkline.engine.session import routing
from trunkline.model.errors import RouteNotFound
from trunkline.model.principal import ANONYMOUS
from trunkline.model.profile import Profile
from trunkline.model.session import Peer, Routing
from trunkline.ports.backend import Backend, NamesSessions
from trunkline.ports.store import Scope
from trunkline.runtime.fanout import SnapshotSubscription, Subscription
from trunkline.runtime.run import Run


class Lane(Struct, frozen=True, cache_hash=True, gc=False):
    """A queue of turns, which run one after the other."""

    scope: Scope
    # The context or the task, or empty for one lane per caller, as `context_mode` of the profile
    # says.
    name: str


class PublishedAgent:
    def __init__(
        self,
        *,
        handle: str,
        backend: Backend,
        input_modes: tuple[str, ...] = ("*/*",),
        output_modes: tuple[str, ...] = ("*/*",),
        profile: Profile | None = None,
        agent_id: str = "",
        account_id: str = "",
        is_open: bool = False,
        is_isolated: bool = False,
        calls_others: bool = False,
    ) -> None:
        self.handle = handle
        # Whether it has tools that call other agents of the gateway, whose answers may come to its
        # sessions.
        self.calls_others = calls_others
        # Whether it may call no other agents during a turn.
        self.is_isolated = is_isolated
        # Whether all who are signed in may call it without a grant.
        self.is_open = is_open
        self.agent_id = agent_id or handle.partition("/")[2]
        self.account_id = account_id or handle
        # Its mark in call chains; empty until it is published.
        self.mark = ""
        self.backend = backend
        self._names_sessions = backend if isinstance(backend, NamesSessions) else None
        self.input_modes = input_modes
        self.profile = profile or Profile()
        self.rules = MessageRules(input_modes, self.profile)
        # The media types for a caller that names none; None means any type.
        bounds = self.profile.unnamed_output == "card"
        self.unnamed_modes = AcceptedModes.of(output_modes) if bounds else None
        self.style = style_of(self.profile)
        # Whether the agent continues its runs while the gateway is down.
        self.resumes = backend.can_resume and "resume_running" in self.profile.on_restart
        is_whole = self.profile.stream_shape == "snapshots"
        self.reader = SnapshotSubscription if is_whole else Subscription
        # Whether each task is a conversation of its own, whatever contexts callers see.
        self.is_stateless = self.profile.context_mode == "stateless"
        # Whether a blocking send may be answered before its task has settled.
        self.bounds_waits = self.profile.reply_wait_s > 0 or self.profile.queued_send == "return"
        limits = (self.profile.max_concurrency, self.profile.max_concurrency_per_node)
        self.lanes: Lanes[Lane, Run] = Lanes(
            max_waiting=self.profile.max_queue_per_context,
            max_running=min(filter(None, limits), default=0),
            driver_of=_principal if self.profile.driver_claim else None,
        )
        # Whether the agent was withdrawn, or replaced by `successor`. None of its turns begin any
        # more.
        self.is_closed = False
        self.successor: PublishedAgent | None = None

    def current(self) -> "PublishedAgent":
        """The agent that takes messages in place of this one. Raises RouteNotFound when it was
        withdrawn."""
        agent = self
        while agent.is_closed:
            if agent.successor is None:
                raise RouteNotFound("The agent was withdrawn; it takes no more messages")
            agent = agent.successor
        return agent

    def peer(self, scope: Scope, context_id: str, task_id: str, session_key: str = "") -> Peer:
        """The caller in one of its sessions. `session_key` is the key that the stored task
        names."""
        context_id = self.conversation(context_id, task_id)
        if not session_key and self._names_sessions is not None:
            session_key = self._names_sessions.session_key_of(
                agent=self.handle,
                tenant=scope.tenant,
                principal=scope.principal,
                context_id=context_id,
            )
        return Peer(
            principal=scope.principal,
            tenant=scope.tenant,
            is_anonymous=scope.principal == ANONYMOUS.id,
            agent_id=self.agent_id,
            account_id=self.account_id,
            context_id=context_id,
            task_id=task_id,
            session_key=session_key,
        )

    @property
    def names_sessions(self) -> bool:
        """Whether its backend has its own names for sessions."""
        return self._names_sessions is not None

    def conversation(self, context_id: str, task_id: str) -> str:
        """The id by which backends and sessions know the conversation of a task. Without contexts
        it is that of the task: clients may use the id of a message, and so of a context, again."""
        return task_id if self.is_stateless else context_id

    def routing(self, scope: Scope, context_id: str, task_id: str) -> Routing:
        return routing(self.profile, self.peer(scope, context_id, task_id))

    def lane(self, scope: Scope, context_id: str, task_id: str) -> Lane:
        """The lane in which the turns of this task wait and run."""
        mode = self.profile.context_mode
        if mode == "session":
            return Lane(scope, context_id)
        return Lane(scope, "" if mode == "client" else task_id)

    def owned_lane(self, lane: Lane) -> Lane:
        """The lane that a node owns to write to tasks of this one, where several share the store.
        An agent that works for one caller at a time belongs to one node as a whole: so its claim
        holds over all nodes, in the order of arrival, and is free when that node is gone."""
        return Lane(Scope(self.handle, "", ""), "") if self.profile.driver_claim else lane


def _principal(lane: Lane) -> str:
    return lane.scope.principal
