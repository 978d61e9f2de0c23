"""`RelaySettings`: the relay at which the agents of this gateway can be called."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, did_you_mean
from trunkline.config.secret import Secret
from trunkline.model.handles import OWNER, SLUG
from trunkline.settings.agents import AgentSettings, stands_for_many
from trunkline.settings.auth import ALL, operation_problems
from trunkline.settings.server import is_loopback_host

# Where a relay takes hosts.
AGENT_PATH = "/agent"
_VISIBLE = re.compile(r"[!-~]+")
_PATH: Path = ("relay",)


class RelaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A relay: the gateway dials out to it, and its agents can be called there. The table turns it
    on."""

    url: Annotated[
        str,
        doc('WebSocket address of the relay, for example `"wss://relay.example.com/agent"`.'),
    ]
    standby: Annotated[
        tuple[str, ...],
        doc(
            "Addresses of more relays, in the order of preference. The next one has the agents "
            "while those before it fail, and the gateway goes back to the first one when it is "
            "there again. They take the same token, and their callers keep their names."
        ),
    ] = ()
    tenant: Annotated[str, doc("The part of the relay that the agents belong to.")]
    agent_id: Annotated[
        str, doc("Name of the default agent there. Give this or `agents`, not both.")
    ] = ""
    agents: Annotated[
        dict[str, str],
        doc("The agents that can be called there: the handle here of each name there."),
    ] = {}
    token: Annotated[
        Secret | None,
        doc('The token of this gateway at the relay. Prefer `"${NAME_OF_VARIABLE}"`.'),
    ] = None
    token_path: Annotated[
        str,
        doc(
            "File with the token, in place of `token`. It is read before each connection, so that "
            "another program can renew the token."
        ),
    ] = ""
    transport: Annotated[
        Literal["auto", "websocket", "long-poll"],
        doc(
            "How the relay is reached. `auto` tries a WebSocket, and plain HTTP requests where the "
            "network lets no WebSocket pass."
        ),
    ] = "auto"
    mode: Annotated[
        Literal["both", "relay"],
        doc(
            "What cards name: `both` names the addresses of this gateway and then those at the "
            "relay, `relay` only the latter."
        ),
    ] = "both"
    protocol: Annotated[
        Literal["auto", "v2", "v1"],
        doc(
            "Protocol of the relay. `auto` offers `a2a.relay.v2`, and speaks v1 with a relay that "
            "does not choose it; `v1` is for a relay that refuses the offer."
        ),
    ] = "auto"
    grants: Annotated[
        tuple[str, ...],
        doc(
            "What callers of a relay of protocol v1 may call: operations such as `SendMessage`, or "
            '`"*"` for all. Such a relay does not say who calls, so all of its callers are one '
            "principal and see each other's tasks. A relay of protocol v2 has grants of its own."
        ),
    ] = (ALL,)

    def v1_operations(self) -> frozenset[str] | None:
        """The operations of `grants`; None for all of them."""
        return None if ALL in self.grants else frozenset(self.grants)

    def handles(self, default_agent: str) -> Mapping[str, str]:
        """The handle here of each agent, by its handle at the relay, which is `tenant/name`."""
        named = {self.agent_id: default_agent} if self.agent_id else self.agents
        return {f"{self.tenant}/{name}": handle for name, handle in named.items()}

    @property
    def base_url(self) -> str:
        """The address below which clients reach the relay."""
        return base_url_of(self.url)

    @property
    def base_urls(self) -> tuple[str, ...]:
        """The same for this relay and those that stand by."""
        return tuple(dict.fromkeys(map(base_url_of, (self.url, *self.standby))))


def base_url_of(url: str) -> str:
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "wss" else "http"
    path = parts.path.rstrip("/").removesuffix(AGENT_PATH)
    return f"{scheme}://{parts.netloc}{path}"


def relay_problems(
    relay: RelaySettings, *, agents: Mapping[str, AgentSettings], default_agent: str
) -> Iterator[Problem]:
    yield from _url_problems(relay.url, (*_PATH, "url"))
    for i, url in enumerate(relay.standby):
        at: Path = (*_PATH, "standby", i)
        if url in (relay.url, *relay.standby[:i]):
            yield bad_value(at, "is given before", "Name each relay once.")
        else:
            yield from _url_problems(url, at)
    if not OWNER.fullmatch(relay.tenant):
        yield bad_value(
            (*_PATH, "tenant"), "cannot be a tenant", "Use letters, digits and hyphens."
        )
    for name in (relay.agent_id, *relay.agents):
        if name and not SLUG.fullmatch(name):
            path = "agent_id" if name == relay.agent_id else "agents"
            yield Problem(
                (*_PATH, path),
                f'"{name}" cannot be the name of an agent',
                "Use lower-case letters, digits and hyphens.",
            )
    if bool(relay.agent_id) == bool(relay.agents):
        yield Problem(
            (*_PATH, "agents"),
            "needs agent_id or agents, and not both",
            'Example: agent_id = "helper".',
        )
    if relay.agent_id and not default_agent:
        yield Problem(
            (*_PATH, "agent_id"),
            "names the default agent, and there is none",
            'Set default = true for one of the agents, or give agents = { name = "owner/slug" }.',
            reads=(("agents",),),
        )
    for name, handle in relay.agents.items():
        if handle not in agents and not any(map(stands_for_many, agents)):
            yield bad_value(
                (*_PATH, "agents", name),
                "is no agent of this gateway",
                f"{did_you_mean(handle, agents)}Name one of [agents].",
                reads=(("agents",),),
            )
    yield from _token_problems(relay)
    yield from operation_problems((*_PATH, "grants"), relay.grants)
    if relay.protocol == "v1" and relay.transport == "long-poll":
        yield bad_value(
            (*_PATH, "transport"),
            "is nothing that a relay of protocol v1 knows",
            'Such relays take WebSockets alone; leave transport out, or set protocol = "v2".',
            reads=((*_PATH, "protocol"),),
        )
    if relay.protocol == "v1" and len(relay.agents) > 1:
        yield Problem(
            (*_PATH, "agents"),
            "has several agents, and a relay of protocol v1 takes one for each token",
            "Name one agent, and give each of the others a gateway with a token of its own.",
        )


def _url_problems(url: str, path: Path) -> Iterator[Problem]:
    parts = _split(url)
    if parts is not None and parts.scheme in ("http", "https") and parts.hostname:
        is_plain = parts.scheme == "http" and is_loopback_host(parts.hostname)
        place = parts.netloc.rpartition("@")[2] + (parts.path.rstrip("/") or AGENT_PATH)
        remedy = f'Write "{"ws" if is_plain else "wss"}://{place}".'
        yield bad_value(path, "is no address of a WebSocket", remedy)
    elif parts is None or parts.scheme not in ("ws", "wss") or not parts.hostname:
        yield bad_value(
            path,
            "is no address of a WebSocket",
            'Example: "wss://relay.example.com/agent".',
        )
    elif parts.username is not None or parts.query or parts.fragment:
        yield bad_value(
            path, "has a user, a query or a fragment", "Leave them out; the token goes into token."
        )
    elif parts.scheme == "ws" and not is_loopback_host(parts.hostname):
        yield bad_value(
            path, "would send the token unencrypted", "Use wss://; ws:// is for this machine alone."
        )


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def is_sendable(token: str) -> bool:
    """Whether a header can hold the token."""
    return _VISIBLE.fullmatch(token) is not None


def _token_problems(relay: RelaySettings) -> Iterator[Problem]:
    if (relay.token is None) == (not relay.token_path):
        yield Problem(
            (*_PATH, "token"),
            "needs token or token_path, and not both",
            'Example: token = "${A2A_RELAY_TOKEN}".',
        )
    elif relay.token is not None and not is_sendable(relay.token.reveal()):
        yield bad_value(
            (*_PATH, "token"),
            "is empty or holds characters that cannot be sent in a header",
            "Copy it once more from where it was made.",
        )
