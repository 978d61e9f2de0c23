"""Agents that do not run: their addresses, and what is answered there."""

from trunkline.app.cards import addresses_of
from trunkline.model.errors import Unavailable
from trunkline.protocol import openclaw, rest
from trunkline.protocol.versions import Version
from trunkline.settings import AgentSettings, Settings


def idle_addresses(settings: Settings) -> dict[str, bytes]:
    idle: dict[str, bytes] = {}
    default = settings.default_agent()
    for handle, agent in settings.agents.items():
        if not agent.unavailable:
            continue
        body = _refusal(handle, agent)
        for addresses in addresses_of(handle, agent, is_default=handle == default):
            paths = (*addresses.card_paths, addresses.jsonrpc, addresses.rest)
            idle |= {path: body for path in paths if path is not None}
    return idle


def _refusal(handle: str, settings: AgentSettings) -> bytes:
    if settings.error_style == "openclaw-inbound":
        return openclaw.not_running(settings.account_id or handle)
    # Somebody has to do something first, so there is no time after which to try again.
    error = Unavailable(settings.unavailable, retry_after_s=0)
    _, body = rest.error(error, Version.V1_0)
    return body
