"""The addresses of agents at the relay: `/t/TENANT/a2a/AGENT`, and what is below."""

from typing import Final
from urllib.parse import quote

from msgspec import Struct

PREFIX: Final = "/t"
# Where the card of an agent is, below the agent.
CARD_PATHS: Final = ("/.well-known/agent-card.json", "/.well-known/agent.json", "/agent-card.json")


class Address(Struct, frozen=True):
    # Tenant and id of the agent, as in `acme/helper`.
    agent: str
    # The path below the agent, with its slash.
    below: str

    @property
    def is_jsonrpc(self) -> bool:
        return self.below in ("", "/")


def address_of(path: str) -> Address | None:
    """None for a path that is of no agent. The path is decoded."""
    parts = path.split("/", 5)
    if len(parts) < 5 or parts[:2] != ["", "t"] or parts[3] != "a2a":
        return None
    tenant, agent = parts[2], parts[4]
    if not tenant or not agent:
        return None
    return Address(f"{tenant}/{agent}", f"/{parts[5]}" if len(parts) > 5 else "")


def target_of(agent: str, below: str = "") -> str:
    """The same as a request writes it; `below` is percent-encoded already."""
    return quote(path_of(agent)) + below


def path_of(agent: str) -> str:
    tenant, _, id = agent.partition("/")
    return f"{PREFIX}/{tenant}/a2a/{id}"
