"""`RelayServerSettings`: the relay that this gateway is for others."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import asdict

from trunkline.config import doc
from trunkline.config.problems import Path, Problem
from trunkline.config.secret import Secret
from trunkline.model.handles import EVERY, HANDLE
from trunkline.relay.policies import AgentPolicies, AgentPolicy, MailboxPolicy
from trunkline.relay.tenants.settings import TenantSettings, TokenSettings, token_problems

_PATH: Path = ("relay_server",)
# Clients and proxies give up on requests that take longer.
_MAX_WAIT_S: Final = 60.0
_WaitS: TypeAlias = Annotated[float, Meta(ge=0, le=_MAX_WAIT_S)]
# PostgreSQL keeps records up to 1 GB, and each message is read as a whole.
_MAX_BYTES: Final = 1024**3
_MAX_TTL_S: Final = 90 * 24 * 3600.0
_SAME: Final = "As in `[relay_server]`."


class RelayedAgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one agent of the relay, by its tenant and its name there. Absent keys are
    those of `[relay_server]`."""

    wait_s: Annotated[_WaitS | None, doc(_SAME)] = None
    mailbox: Annotated[MailboxPolicy | None, doc(_SAME)] = None
    mailbox_messages: Annotated[Annotated[int, Meta(ge=1, le=100_000)] | None, doc(_SAME)] = None
    mailbox_bytes: Annotated[Annotated[int, Meta(ge=1, le=_MAX_BYTES)] | None, doc(_SAME)] = None
    mailbox_ttl_s: Annotated[Annotated[float, Meta(ge=1, le=_MAX_TTL_S)] | None, doc(_SAME)] = None


class RelayServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A relay: other gateways attach their agents here. The table turns it on."""

    wait_s: Annotated[
        float,
        doc(
            "Seconds that a request waits for an agent whose connection was just lost. Then "
            "`mailbox` says how it is answered.",
            ge=0,
            le=_MAX_WAIT_S,
        ),
    ] = 5.0
    tenants: Annotated[
        dict[str, TenantSettings],
        doc("Tenants by name. Their hosts and clients have tokens."),
    ] = {}
    jwt_secrets: Annotated[
        tuple[Secret, ...],
        doc(
            "Secrets of at least 32 bytes that sign tokens of every tenant, as relays with the "
            "first protocol have one. Whoever has one of them speaks for all tenants."
        ),
    ] = ()
    issuer: Annotated[
        str, doc("The claim `iss` that the tokens of tenants need. Empty: any or none.")
    ] = ""
    audience: Annotated[
        str,
        doc(
            "The value that the claim `aud` of the tokens must be or hold. Empty: any or none. Set "
            "it where others take tokens with the same secrets."
        ),
    ] = ""
    mailbox: Annotated[
        MailboxPolicy,
        doc(
            "What becomes of a message for an agent that is away and was attached before: `queue` "
            "keeps it until the agent is back, and answers with its task; `fail` answers with 503; "
            "`wait` waits for `wait_s`, and then answers with 503."
        ),
    ] = "queue"
    mailbox_messages: Annotated[
        int,
        doc(
            "How many messages wait for one agent at most, half of them of one caller.",
            ge=1,
            le=100_000,
        ),
    ] = 1000
    mailbox_bytes: Annotated[
        int,
        doc(
            "How many bytes they have together at most, half of them of one caller.",
            ge=1,
            le=_MAX_BYTES,
        ),
    ] = 64 * 1024 * 1024
    mailbox_ttl_s: Annotated[
        float,
        doc(
            "Seconds that a message waits at most. Its task has failed then.",
            ge=1,
            le=_MAX_TTL_S,
        ),
    ] = 7 * 24 * 3600.0
    agents: Annotated[
        dict[str, RelayedAgentSettings],
        doc('Settings of single agents, by `"tenant/agent"`.'),
    ] = {}

    def tokens(self, *, allow_private: bool) -> TokenSettings:
        """How the tokens of tenants are checked. `allow_private`: keys may be at private
        addresses."""
        return TokenSettings(
            tenants=self.tenants,
            secrets=self.jwt_secrets,
            issuer=self.issuer,
            audience=self.audience,
            allow_private=allow_private,
        )

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
    yield from token_problems(relay.tokens(allow_private=False), _PATH)
    for agent in relay.agents:
        if not HANDLE.fullmatch(agent) or agent.endswith(EVERY):
            yield Problem(
                (*_PATH, "agents", agent),
                "is no agent of a relay",
                'Name one as "tenant/agent", such as "acme/helper".',
            )
