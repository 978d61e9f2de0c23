"""`Callees`: the agents that others may ask."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from trunkline.engine.agent_calls import CallPolicy
from trunkline.model.principal import Principal
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.queued_replies import QueuedReplies
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

    def as_caller(self, principal: Principal) -> Principal:
        """The one on whose behalf an agent calls, as the called agent is to see it."""
        return principal


class Callees(Protocol):
    def callee(self, name: str) -> Callee | None:
        """The agent with the handle, the only one with the slug, or the target with the alias."""
        ...

    def callees(self) -> Sequence[Callee]: ...

    def policy_of(self, handle: str) -> CallPolicy:
        """What the agent may ask of others."""
        ...
