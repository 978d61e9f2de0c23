"""`Settings`: the whole configuration."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from trunkline.config import doc
from trunkline.config.problems import Path
from trunkline.engine.routes import Route
from trunkline.model.errors import ConfigError
from trunkline.settings.agents import AgentSettings, handle_of, stands_for_many
from trunkline.settings.auth import AuthSettings
from trunkline.settings.cluster import ClusterSettings
from trunkline.settings.console import ConsoleSettings
from trunkline.settings.hub import HubSettings
from trunkline.settings.relay import RelaySettings
from trunkline.settings.relay_server import RelayServerSettings
from trunkline.settings.routing import RouteSettings, RoutingSettings
from trunkline.settings.server import ServerSettings, is_loopback_host, is_loopback_url
from trunkline.settings.stores import StoreSettings
from trunkline.settings.targets import NetworkSettings, RemoteSettings, TargetSettings


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a Trunkline gateway."""

    server: Annotated[ServerSettings, doc("Address and limits of the gateway.")] = field(
        default_factory=ServerSettings
    )
    store: Annotated[StoreSettings, doc("Store of the tasks and their journal.")] = field(
        default_factory=StoreSettings
    )
    cluster: Annotated[ClusterSettings, doc("Gateways that share a PostgreSQL store.")] = field(
        default_factory=ClusterSettings
    )
    auth: Annotated[AuthSettings, doc("Access control.")] = field(default_factory=AuthSettings)
    agents: Annotated[
        dict[str, AgentSettings],
        doc(
            "Published agents by handle, `owner/slug`. A handle `owner/*` with a "
            "`python` backend publishes every agent of the target, each under the "
            "slug of its name."
        ),
    ] = {}
    targets: Annotated[dict[str, TargetSettings], doc("Remote agents to call, by alias.")] = {}
    remote: Annotated[RemoteSettings, doc("The tool with which models call the targets.")] = field(
        default_factory=RemoteSettings
    )

    routing: Annotated[RoutingSettings, doc("Calls between the agents of this gateway.")] = field(
        default_factory=RoutingSettings
    )

    routes: Annotated[
        tuple[RouteSettings, ...],
        doc("What happens when a task of an agent completes, fails or emits an artifact."),
    ] = ()

    hub: Annotated[
        HubSettings | None,
        doc("Agents that are published while the gateway runs, and credentials to call them."),
    ] = None

    relay: Annotated[
        RelaySettings | None,
        doc("The relay at which the agents of this gateway can be called."),
    ] = None

    relay_server: Annotated[
        RelayServerSettings | None,
        doc("The relay that this gateway is for others."),
    ] = None

    console: Annotated[ConsoleSettings, doc("The page of the gateway.")] = field(
        default_factory=ConsoleSettings
    )

    network: Annotated[NetworkSettings, doc("Which addresses the gateway calls.")] = field(
        default_factory=NetworkSettings
    )

    @property
    def as_relay(self) -> RelayServerSettings | None:
        """The relay that this gateway is for others; None if it is none."""
        if self.relay_server is None and self.server.relay:
            return RelayServerSettings()
        return self.relay_server

    @property
    def route_list(self) -> list[Route]:
        return [each.route for each in self.routes]

    def default_agent(self) -> str:
        """Handle of the agent at the root addresses; empty when none is."""
        for handle, agent in self.agents.items():
            if agent.default:
                return handle
        return next(iter(self.agents)) if len(self.agents) == 1 else ""

    def with_default(self) -> "Settings":
        """The same with the key `default` of the agent that is the only one of its file. So it
        stays the default agent when others are published beside it."""
        handle = self.default_agent()
        if not handle or self.agents[handle].default:
            return self
        agents = {handle: replace(self.agents[handle], default=True)}
        return replace(self, agents=self.agents | agents)

    def adopting_agent(self, store: StoreSettings) -> str:
        """Handle of the agent that adopts the tasks of another program in the store: the default
        agent if it uses this store, else the first agent that does. Empty if none does."""
        there = [
            handle
            for handle, agent in self.agents.items()
            if not agent.unavailable and (agent.store or self.store) == store
        ]
        default = self.default_agent()
        return default if default in there else next(iter(there), "")

    def stores(self) -> list[StoreSettings]:
        """The stores of the agents that run, and that of the hub and the relay, each one once."""
        running = [agent for agent in self.agents.values() if not agent.unavailable]
        main = [self.store] if self.needs_main_store else []
        return list(dict.fromkeys([*main, *(agent.store or self.store for agent in running)]))

    @property
    def needs_main_store(self) -> bool:
        """Whether features keep records in the main store, also if no agent has its tasks there."""
        return self.hub is not None or self.as_relay is not None

    def operator_store(self) -> StoreSettings:
        """The store beside which a running gateway leaves the credential for operators: the main
        store, or the first of the agents' own where no agent uses the main store."""
        kept = [store for store in self.stores() if store.kind != "memory"]
        return self.store if self.store in kept or not kept else kept[0]

    def calls_others(self) -> bool:
        """Whether the configuration names agents to call."""
        return bool(self.targets) or self.remote != RemoteSettings()

    def is_exposed(self) -> bool:
        """Whether other machines can reach the gateway, by its address or through a proxy."""
        if not is_loopback_host(self.server.host):
            return True
        return any(not is_loopback_url(url) for url in self.public_urls().values())

    def public_urls(self) -> dict[Path, str]:
        """The configured base URLs, which the cards advertise, by the paths of their keys."""
        urls: dict[Path, str] = {}
        if self.server.public_url:
            urls["server", "public_url"] = self.server.public_url
        for handle, agent in self.agents.items():
            # Few agents have one, and there may be thousands of them.
            if agent.public_url:
                urls["agents", handle, "public_url"] = agent.public_url
        return urls

    def public_hosts(self) -> list[str]:
        """Host names under which callers reach the gateway."""
        urls = self.public_urls().values()
        return [host for url in urls if (host := urlsplit(url).hostname)]

    def allows_anonymous(self) -> bool:
        if self.hub is not None and self.auth.anonymous == "auto":
            return False
        if self.auth.needs_no_key == "always":
            return is_loopback_host(self.server.host)
        return self.auth.needs_no_key == "loopback" and not self.is_exposed()

    @property
    def has_no_hosts(self) -> bool:
        """Whether it is a relay to which nothing of the configuration lets a gateway attach."""
        relay = self.as_relay
        if relay is None or relay.tenants or relay.jwt_secrets:
            return False
        return not any(key.attach for key in self.auth.keys.values())

    def access_warning(self) -> str:
        """A warning if callers need no key although keys are configured; else empty."""
        if not self.auth.keys or not self.allows_anonymous():
            return ""
        if self.auth.needs_no_key == "always":
            return (
                'auth.anonymous = "always": callers need no key although keys are configured. '
                "Remove anonymous to require a key from every caller."
            )
        return (
            'auth.anonymous = "loopback": programs on this machine need no key although keys are '
            "configured, and a proxy on this machine that adds neither X-Forwarded-For nor Via "
            "looks like one of them. Remove anonymous to require a key from every caller."
        )

    def auth_summary(self) -> str:
        """The callers that are allowed, in a few words."""
        keys = f"API keys: {', '.join(self.auth.keys)}" if self.auth.keys else ""
        anonymous = ""
        # Agents of the relay always need a credential.
        has_own = bool(self.agents) or self.as_relay is None
        if has_own and self.allows_anonymous():
            beyond = " and beyond" if self.is_exposed() else ""
            anonymous = f"anonymous callers on loopback{beyond}"
        hub = "credentials of the hub" if self.hub is not None else ""
        tenants = "tokens of the relay's tenants" if self.as_relay is not None else ""
        return "; ".join(part for part in (keys, hub, tenants, anonymous) if part)


def publish(settings: Settings, found: Mapping[str, Sequence[str]]) -> Settings:
    """Settings in which every `owner/*` is replaced by the agents found in its target.

    `found` maps each such handle to the names or slugs of its agents. An agent is published as
    `handle_of(handle, name)`, with the settings of the handle that stands for it.
    """
    agents: dict[str, AgentSettings] = {}
    for handle, agent in settings.agents.items():
        if not stands_for_many(handle):
            agents[handle] = agent
            continue
        for i, name in enumerate(found.get(handle, ())):
            own = handle_of(handle, name)
            if own in settings.agents or own in agents:
                raise ConfigError(
                    f'agents."{own}": two agents have this handle. Give one of them another '
                    'slug: @agent(slug="…").'
                )
            agents[own] = replace(agent, default=agent.default and i == 0)
    return replace(settings, agents=agents)
