"""`AgentPolicy`: how the relay treats the requests to one agent. `AgentPolicies`: to each of
them."""

from collections.abc import Mapping

from msgspec import Struct


class AgentPolicy(Struct, frozen=True, kw_only=True):
    # How long a request waits for a host whose connection is lost.
    wait_s: float = 5.0


class AgentPolicies(Struct, frozen=True, kw_only=True):
    default: AgentPolicy = AgentPolicy()
    # By the agents at the relay, as in `acme/helper`.
    exceptions: Mapping[str, AgentPolicy] = {}

    def of(self, agent: str) -> AgentPolicy:
        return self.exceptions.get(agent, self.default)
