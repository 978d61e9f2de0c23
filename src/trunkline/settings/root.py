"""The whole configuration."""

from typing import Annotated

from msgspec import Meta, Struct, field

from trunkline.settings.agents import AgentSettings
from trunkline.settings.hosts import is_loopback_host, is_loopback_url
from trunkline.settings.server import AuthSettings, ServerSettings, StoreSettings


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a Trunkline gateway."""

    server: Annotated[
        ServerSettings, Meta(description="Where the gateway listens, and its limits.")
    ] = field(default_factory=ServerSettings)
    store: Annotated[StoreSettings, Meta(description="Where tasks and their journal are kept.")] = (
        field(default_factory=StoreSettings)
    )
    auth: Annotated[AuthSettings, Meta(description="Who may call.")] = field(
        default_factory=AuthSettings
    )
    agents: Annotated[
        dict[str, AgentSettings],
        Meta(
            description="Published agents by handle, `owner/slug`. A handle `owner/*` with a "
            "`python` backend publishes every agent in the target, each under the slug of its name."
        ),
    ] = {}

    def default_agent(self) -> str:
        """Handle of the agent at the root addresses; empty when none is."""
        for handle, agent in self.agents.items():
            if agent.default:
                return handle
        return next(iter(self.agents)) if len(self.agents) == 1 else ""

    def adopting_agent(self, store: StoreSettings) -> str:
        """Handle of the agent that gets what another program has left in the store: the
        default agent if it is there, else the first that is."""
        there = [
            handle for handle, agent in self.agents.items() if (agent.store or self.store) == store
        ]
        default = self.default_agent()
        return default if default in there else there[0]

    def is_exposed(self) -> bool:
        """Whether callers beyond this machine can come: by the address, or by a proxy."""
        server = self.server
        if not is_loopback_host(server.host):
            return True
        return bool(server.public_url) and not is_loopback_url(server.public_url)

    def allows_anonymous(self) -> bool:
        return self.auth.anonymous == "loopback" and not self.is_exposed()

    def auth_summary(self) -> str:
        """Who may call, in a few words for people."""
        keys = f"API keys: {', '.join(self.auth.keys)}" if self.auth.keys else ""
        anonymous = "anonymous callers on loopback" if self.allows_anonymous() else ""
        return "; ".join(part for part in (keys, anonymous) if part)
