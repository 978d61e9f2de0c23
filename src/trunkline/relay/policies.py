"""`AgentPolicy`: how the relay treats the requests to one agent. `AgentPolicies`: to each of
them."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

# What becomes of a message for an agent that is away: it is queued, it is refused, or it waits for
# a short time and is then refused.
MailboxPolicy: TypeAlias = Literal["queue", "fail", "wait"]


class AgentPolicy(Struct, frozen=True, kw_only=True):
    # How long a request waits for a host whose connection is lost.
    wait_s: float = 5.0
    mailbox: MailboxPolicy = "queue"
    # The maximum of what waits.
    mailbox_messages: int = 1000
    mailbox_bytes: int = 64 * 1024 * 1024
    # How long a message waits.
    mailbox_ttl_s: float = 7 * 24 * 3600.0


class AgentPolicies(Struct, frozen=True, kw_only=True):
    default: AgentPolicy = AgentPolicy()
    # By the agents at the relay, as in `acme/helper`.
    exceptions: Mapping[str, AgentPolicy] = {}

    def of(self, agent: str) -> AgentPolicy:
        return self.exceptions.get(agent, self.default)
