"""`Callees`: the agents that others may ask."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from trunkline.engine.agent_calls import CallPolicy
from trunkline.model.principal import Grant, Principal
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.queued_replies import QueuedReplies
from trunkline.runtime.runtime import Runtime
from trunkline.runtime.service import Service
from trunkline.runtime.sessions import Sessions


class Callee(Struct, frozen=True, kw_only=True):
    agent: PublishedAgent
    service: Service
    sessions: Sessions
    queued_replies: QueuedReplies
    # The ids of the skills on its card; empty where they are not known.
    skills: tuple[str, ...] = ()
    # Whether callers that may not call it must not learn that it exists.
    is_private: bool = False

    # Whether no grant is needed to call it, because it has no callers but agents of the gateway.
    is_internal: bool = False
    # Whether it is a target of the configuration, which is elsewhere.
    is_remote: bool = False

    def as_caller(self, principal: Principal) -> Principal:
        """The one on whose behalf an agent calls, with what it needs to be let in."""
        if not self.is_internal:
            return principal
        return replace(principal, grants=(Grant(self.agent.handle),), within=None)


class Callees(Protocol):
    def callee(self, name: str) -> Callee | None:
        """The agent with the handle, the only one with the slug, or the target with the alias."""
        ...

    def callees(self) -> Sequence[Callee]: ...

    def policy_of(self, handle: str) -> CallPolicy:
        """What the agent may ask of others."""
        ...


def internal_callee(agent: PublishedAgent, runtime: Runtime, *, is_remote: bool = False) -> Callee:
    """An agent that only others of the gateway call."""
    return Callee(
        agent=agent,
        service=runtime.service,
        sessions=runtime.sessions,
        queued_replies=runtime.queued_replies,
        is_internal=True,
        is_remote=is_remote,
    )
