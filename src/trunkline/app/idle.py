"""Agents that do not run: their addresses, and what is answered there."""

from trunkline.app.cards import addresses_of
from trunkline.model.errors import Unavailable
from trunkline.protocol import openclaw, rest
from trunkline.protocol.versions import Version
from trunkline.server.application import Idle
from trunkline.settings import AgentSettings, Settings


def idle_addresses(settings: Settings) -> Idle:
    at: dict[str, bytes] = {}
    below: dict[str, bytes] = {}
    default = settings.default_agent()
    for handle, agent in settings.agents.items():
        if not agent.unavailable:
            continue
        body = _refusal(handle, agent)
        for addresses in addresses_of(handle, agent, is_default=handle == default):
            at |= dict.fromkeys((*addresses.card_paths, addresses.jsonrpc), body)
            if addresses.rest is not None:
                at[f"{addresses.jsonrpc}/"] = body
                below[addresses.rest] = body
    return Idle(at=at, below=below)


def _refusal(handle: str, settings: AgentSettings) -> bytes:
    if settings.error_style == "openclaw-inbound":
        return openclaw.not_running(settings.account_id or handle)
    # Somebody has to do something first, so there is no time after which to try again.
    error = Unavailable(settings.unavailable, retry_after_s=0)
    _, body = rest.error(error, Version.V1_0)
    return body
