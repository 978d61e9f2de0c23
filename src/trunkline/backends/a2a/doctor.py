"""Findings of `trunkline doctor` about an upstream agent."""

from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.a2a.upstream import Upstream, upstream_target
from trunkline.backends.kind import Resources
from trunkline.model.calls import ListTasksRequest
from trunkline.ports.backend import Finding
from trunkline.remote import Limits, connect
from trunkline.remote.errors import PeerRefused, RemoteError, TransportUnsupported

# The operator waits for the result and can ask again, so one attempt is enough.
_LIMITS = Limits(attempts=1, connect_s=5.0)


async def check(settings: A2aBackend, resources: Resources) -> list[Finding]:
    target = upstream_target(settings, allow_private=resources.allow_private)
    async with connect(target, limits=_LIMITS) as upstream:
        return await check_a2a(upstream, settings.url)


async def check_a2a(upstream: Upstream, url: str) -> list[Finding]:
    try:
        card = await upstream.card(fresh=True)
    except RemoteError as error:
        return [
            Finding(
                "error",
                f"The agent at {url} cannot be asked for its card: {error.message}",
                "Start the agent, or correct url and card_path.",
            )
        ]
    ways = ", ".join(
        f"{each.protocol_binding} {each.protocol_version}" for each in card.supported_interfaces
    )
    found = [Finding("ok", f'"{card.name}" {card.version} at {url} ({ways}).')]
    if card.capabilities.streaming is False:
        found.append(
            Finding("warning", "It does not stream; the gateway looks at its tasks now and then.")
        )
    return [*found, await _let_in(upstream)]


async def _let_in(upstream: Upstream) -> Finding:
    """A call that changes nothing shows whether the credentials are good."""
    try:
        await upstream.list(ListTasksRequest(page_size=1))
    except TransportUnsupported as error:
        return Finding("error", error.message, "Correct transports or a2a_version.")
    except PeerRefused as error:
        if error.status in (401, 403):
            return Finding(
                "error", f"It does not let us in: {error.message}", "Set or correct credentials."
            )
        # A2A 0.3 has no list, and 1.0 agents may refuse it; any answer shows that it serves calls.
        return Finding("ok", "It answers calls.")
    except RemoteError as error:
        return Finding(
            "error",
            f"It has a card, and does not answer calls: {error.message}",
            "Look at the URLs on its card; they must be reachable from here.",
        )
    return Finding("ok", "It answers calls.")
