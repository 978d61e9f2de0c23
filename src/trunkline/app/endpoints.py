"""`Endpoints`: the addresses and cards of agents, and the answers of agents that are out of
service."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from trunkline.app.card_signer import CardSigner
from trunkline.app.cards import (
    Described,
    Place,
    addresses_of,
    agent_card,
    card_shape,
    describe_upstream,
    extended_card,
    hub_card,
)
from trunkline.backends.a2a.backend import A2aBackend as Upstream
from trunkline.backends.python import Agent
from trunkline.model.card import AgentCard
from trunkline.model.errors import Unavailable
from trunkline.ports.clock import Clock
from trunkline.protocol import rest
from trunkline.protocol.dialects import dialects_for
from trunkline.protocol.versions import Version
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.service import Service
from trunkline.server.application import Idle
from trunkline.server.endpoint import Endpoint, Limits
from trunkline.settings import AgentSettings, Settings
from trunkline.settings.hub_profile import HUB


class Endpoints(Struct, frozen=True, kw_only=True):
    settings: Settings
    base_url: str
    clock: Clock
    signer: CardSigner | None
    # Where agents are reached through a relay, by their handles, and whether only there.
    relayed: Mapping[str, Sequence[Place]] = {}
    is_relayed_only: bool = False

    def of(
        self, agent: PublishedAgent, service: Service, code: Agent | None, *, is_default: bool
    ) -> Iterator[Endpoint]:
        """The endpoints of an agent. Endpoints that were made for it before do not follow the card
        of its upstream any more."""
        settings = self.settings.agents[agent.handle]
        server = self.settings.server
        described: Described | None = code
        if isinstance(agent.backend, Upstream):
            agent.backend.card.watchers.clear()
            if agent.backend.card.latest is not None:
                described = describe_upstream(agent.backend.card.latest)
        limits = Limits(
            max_body_bytes=settings.max_body_bytes or server.max_body_bytes,
            max_json_depth=server.max_json_depth,
        )
        dialects = dialects_for(agent.profile)
        not_found = dialects.errors.not_found
        base_url = settings.public_url.rstrip("/") or self.base_url
        shape = card_shape(settings)
        if settings.card_style == HUB:
            shape = replace(shape, unstated=hub_card(self.settings, base_url).of)
        own = [
            Place(base_url, addresses)
            for addresses in addresses_of(agent.handle, settings, is_default=is_default)
        ]
        # All relays hand requests on to the same addresses.
        relayed = self.relayed.get(agent.handle, ())
        for place in (*own, *relayed[:1]):
            is_relayed = place in relayed
            make_card = partial(
                agent_card,
                agent.handle,
                settings,
                places=self._places(own[0] if is_relayed else place, relayed),
                access=self.settings,
                needs_token=is_relayed,
            )
            card, extended = self._cards(make_card(code=described), settings)
            endpoint = Endpoint(
                agent=agent,
                service=service,
                dialects=dialects,
                limits=limits,
                card=card,
                extended_card=extended,
                card_paths=place.addresses.card_paths,
                jsonrpc_path=place.addresses.jsonrpc,
                rest_path=place.addresses.rest,
                tenants=frozenset(settings.tenants),
                shape=shape,
                not_found=not_found and not_found(agent.account_id),
                renewed_ms=self.clock.now_ms(),
            )
            if isinstance(agent.backend, Upstream):
                renew = partial(self._renew, endpoint, settings, make_card)
                agent.backend.card.watchers.append(renew)
            yield endpoint

    def _places(self, direct: Place, relayed: Sequence[Place]) -> Sequence[Place]:
        """The places on a card: the relays after the gateway's own, or instead of them."""
        return relayed if relayed and self.is_relayed_only else (direct, *relayed)

    def _renew(
        self,
        endpoint: Endpoint,
        settings: AgentSettings,
        make_card: Callable[..., AgentCard],
        upstream: AgentCard,
    ) -> None:
        """Make new cards after the upstream agent has changed its own."""
        card = make_card(code=describe_upstream(upstream))
        endpoint.card, endpoint.extended_card = self._cards(card, settings)
        endpoint.renewed_ms = self.clock.now_ms()

    def _cards(
        self, card: AgentCard, settings: AgentSettings
    ) -> tuple[AgentCard, AgentCard | None]:
        """The card and the extended card, signed if the gateway has a key."""
        extended = extended_card(card, settings)
        if self.signer is None:
            return card, extended
        return self.signer.sign(card), None if extended is None else self.signer.sign(extended)


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
    style = dialects_for(settings.own_profile()).errors
    if style.not_running is not None:
        return style.not_running(settings.account_id or handle)
    # An operator must act first, so the response has no Retry-After.
    error = Unavailable(settings.unavailable, retry_after_s=0)
    _, body = rest.error(error, Version.V1_0)
    return body
