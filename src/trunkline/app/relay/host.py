"""`RelayHost`: attaches the agents of this gateway to the relays of its configuration."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trunkline.app.cards import Addresses, Place
from trunkline.app.front import Front
from trunkline.app.relay.deliveries import HostDeliveries
from trunkline.app.runtimes import Runtimes
from trunkline.ports.clock import Clock
from trunkline.ports.figures import Figure, Labelled
from trunkline.protocol.relay.addresses import CARD_PATHS, path_of
from trunkline.relay.hosts import dialing
from trunkline.relay.hosts.exchanges import DELIVERY
from trunkline.relay.hosts.host import Host, HostSettings, HostState, HostStatus
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.hosts.transports import Transports
from trunkline.server.asgi import AsgiRequest, AsgiResponse, Receive, Send
from trunkline.server.http import Disconnected
from trunkline.settings import Settings
from trunkline.settings.relay import RelaySettings, is_sendable


class RelayHost:
    def __init__(self, settings: RelaySettings, *, gateway: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._handles = settings.handles(gateway.default_agent())
        self.callers = RelayedCallers()
        self._transports = Transports(settings.transport, clock=clock)
        self._host: Host | None = None
        self._front: Front | None = None
        self._deliveries: HostDeliveries | None = None

    @property
    def places(self) -> Mapping[str, Sequence[Place]]:
        """Where each agent can be called: at the first relay, or at those that stand by."""
        return {
            handle: [
                Place(base_url, _addresses(path_of(agent))) for base_url in self._settings.base_urls
            ]
            for agent, handle in self._handles.items()
        }

    @property
    def is_only_way(self) -> bool:
        return self._settings.mode == "relay"

    @property
    def status(self) -> HostStatus:
        assert self._host is not None
        return self._host.status

    def connect(self, front: Front) -> None:
        self._front = front
        self._host = Host(
            HostSettings(
                url=self._settings.url,
                standby=self._settings.standby,
                agents=self._handles,
                protocol=self._settings.protocol,
                v1_operations=self._settings.v1_operations(),
            ),
            app=self._serve,
            callers=self.callers,
            token=self._token,
            clock=self._clock,
            dial=(dialing.dial_v1 if self._settings.protocol == "v1" else self._transports.dial),
        )

    def open(self, runtimes: Runtimes) -> None:
        assert self._front is not None
        self._deliveries = HostDeliveries(self._front, runtimes, callers=self.callers)

    def start(self) -> None:
        assert self._host is not None
        self._host.start()

    async def drain(self, *, grace_s: float) -> None:
        assert self._host is not None
        await self._host.drain(grace_s=grace_s)

    async def close(self) -> None:
        if self._host is not None:
            await self._host.close()
        await self._transports.close()

    def problems(self) -> list[str]:
        return [_not_attached(self.status)] if self.is_only_way and not self._is_attached else []

    def notes(self) -> list[str]:
        # Where the gateway can be called directly as well, an outage of the relay is none of its
        # own.
        status = self.status
        if self._is_attached:
            return [f"attached to the relay {status.relay}"]
        return [] if self.is_only_way else [_not_attached(status)]

    def figures(self) -> Iterator[Figure | Labelled]:
        status = self.status
        names = [link.relay for link in status.links]
        place = names.index(status.relay) + 1 if status.relay else 0
        agents, requests = len(status.agents), status.requests
        yield "trunkline_relayed_agents", "Agents that can be called at a relay now.", agents
        yield (
            "trunkline_relayed_place",
            "Which relay has the agents: 1 is relay.url, 2 the first of relay.standby; 0 is none.",
            place,
        )
        yield "trunkline_relayed_requests_total", "Requests that came through relays.", requests
        if status.round_trip_s is not None:
            text = "Between a ping to the relay and its answer, the last time."
            yield "trunkline_relayed_round_trip_seconds", text, status.round_trip_s
        yield Labelled(
            "trunkline_relayed_reconnects_total",
            "Connections to a relay after the first one.",
            "relay",
            {link.relay: link.reconnects for link in status.links},
        )
        yield Labelled(
            "trunkline_relayed_failures_total",
            "Attempts to connect to a relay that failed.",
            "relay",
            {link.relay: link.failures for link in status.links},
        )

    @property
    def _is_attached(self) -> bool:
        return self.status.state is HostState.ATTACHED

    async def _token(self) -> str:
        return await read_token(self._settings)

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        assert self._front is not None
        if DELIVERY in scope.get("extensions", ()):
            assert self._deliveries is not None
            await self._deliveries.serve(scope, receive, send)
            return
        request = AsgiRequest.of(scope, receive, memory=self._front.budget)
        try:
            await self._front.application.serve(request, AsgiResponse(send))
        except Disconnected:
            return
        finally:
            request.release()


def _addresses(path: str) -> Addresses:
    return Addresses(
        card_paths=tuple(f"{path}{card}" for card in CARD_PATHS), jsonrpc=path, rest=path
    )


def _not_attached(status: HostStatus) -> str:
    return f"not attached to the relay: {status.trouble or 'connecting'}"


async def read_token(settings: RelaySettings) -> str:
    """The token that the relay is shown now. Raises DialFailed."""
    if settings.token is not None:
        return settings.token.reveal()
    try:
        text = await asyncio.to_thread(Path(settings.token_path).read_text, "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise dialing.DialFailed(f"relay.token_path cannot be read: {why}") from None
    token = text.strip()
    if not is_sendable(token):
        raise dialing.DialFailed(
            "relay.token_path is empty or holds characters that cannot be sent in a header"
        )
    return token
