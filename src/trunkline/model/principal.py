"""`Principal`: the caller of a request, and the agents and operations that it may call."""

from typing import Final

from msgspec import Struct


class Grant(Struct, frozen=True, gc=False):
    """Permission to call agents."""

    # A handle, or `owner/*` for every agent of an owner, or `*` for every agent.
    agent: str
    # The names of the operations (`model.calls.Operation`); None means all of them.
    operations: frozenset[str] | None = None


EVERYTHING: Final = (Grant("*"),)


class Principal(Struct, frozen=True, kw_only=True, gc=False):
    """Determined by a credential alone, never by the content of a message.

    A principal without grants may call nothing.
    """

    # Unique in the gateway: tasks belong to it, and limits count by it. Only API keys have ids
    # without a colon; other authenticators put their name and a colon before theirs.
    id: str
    # The tenant that the principal belongs to; empty for one that may name any tenant.
    tenant: str = ""
    grants: tuple[Grant, ...] = ()
    # Tells the credentials of a principal apart in logs and audits: a name, an id or a public
    # prefix. Never the secret.
    token: str = ""
    # The ids of the principals that this one acts for, the first caller first.
    chain: tuple[str, ...] = ()
    # Whether it may also call every agent that is open to all who are signed in.
    reaches_open: bool = False
    # What it may do beside calling agents: `operator` may manage everything, `owner:NAME` the
    # agents of this owner, and `attach:AGENT` have an agent of its own at the relay, where AGENT is
    # written as in a grant.
    roles: tuple[str, ...] = ()
    # What this credential is limited to, whatever its principal may call otherwise; None for no
    # limit. A call needs a grant of the principal and one of these.
    within: tuple[Grant, ...] | None = None
    # When this credential ends, in milliseconds since the epoch; None if it does not, or if only
    # its authenticator knows.
    ends_ms: int | None = None

    @property
    def is_anonymous(self) -> bool:
        return self.id == ANONYMOUS.id

    @property
    def is_relayed(self) -> bool:
        """Whether it calls through a relay, at which the agent has another handle."""
        return self.id.startswith(RELAYED)


OPERATOR: Final = "operator"
ATTACH: Final = "attach:"
# How the ids of callers begin that come through a relay.
RELAYED: Final = "relay:"


def manages(principal: Principal, owner: str) -> bool:
    """Whether the principal may manage the agents of the owner."""
    return OPERATOR in principal.roles or f"owner:{owner}" in principal.roles


# Every caller without a credential. No API key can have this name.
ANONYMOUS: Final = Principal(id="@anonymous", grants=EVERYTHING)
