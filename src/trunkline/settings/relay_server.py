"""`RelayServerSettings`: the relay that this gateway is for others."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import asdict

from trunkline.config import doc
from trunkline.config.problems import Path, Problem
from trunkline.model.handles import EVERY, HANDLE
from trunkline.relay.policies import AgentPolicies, AgentPolicy

_PATH: Path = ("relay_server",)
# Clients and proxies give up on requests that take longer.
_MAX_WAIT_S: Final = 60.0
_WaitS: TypeAlias = Annotated[float, Meta(ge=0, le=_MAX_WAIT_S)]


class RelayedAgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one agent of the relay, by its tenant and its name there. Absent keys are
    those of `[relay_server]`."""

    wait_s: Annotated[_WaitS | None, doc("As in `[relay_server]`.")] = None


class RelayServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A relay: other gateways attach their agents here. The table turns it on."""

    wait_s: Annotated[
        float,
        doc(
            "Seconds that a request waits for an agent whose connection was just lost. Then it is "
            "answered with 503.",
            ge=0,
            le=_MAX_WAIT_S,
        ),
    ] = 5.0
    agents: Annotated[
        dict[str, RelayedAgentSettings],
        doc('Settings of single agents, by `"tenant/agent"`.'),
    ] = {}

    @property
    def policies(self) -> AgentPolicies:
        """The settings of every agent."""
        default = {name: getattr(self, name) for name in AgentPolicy.__struct_fields__}
        return AgentPolicies(
            default=AgentPolicy(**default),
            exceptions={
                agent: AgentPolicy(**(default | _given(own))) for agent, own in self.agents.items()
            },
        )


def _given(own: RelayedAgentSettings) -> dict[str, Any]:
    return {name: value for name, value in asdict(own).items() if value is not None}


def relay_server_problems(relay: RelayServerSettings) -> Iterator[Problem]:
    for agent in relay.agents:
        if not HANDLE.fullmatch(agent) or agent.endswith(EVERY):
            yield Problem(
                (*_PATH, "agents", agent),
                "is no agent of a relay",
                'Name one as "tenant/agent", such as "acme/helper".',
            )
