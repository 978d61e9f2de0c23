"""`RelayedAgents`: serves the requests that relays have for the agents of this host."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from trunkline.protocol.relay.addresses import address_of
from trunkline.protocol.relay.events import Opened
from trunkline.relay.hosts.exchanges import App, Exchange
from trunkline.relay.hosts.relayed_callers import RelayedCallers, principal_of


class RelayedAgents:
    def __init__(
        self, handles: Mapping[str, str], *, relay: str, app: App, callers: RelayedCallers
    ) -> None:
        """`handles` has the handle here of each agent, by its name at the relay. `relay` tells the
        callers of this relay from those of others."""
        self.handles: Final = handles
        # How many requests have come.
        self.requests = 0
        self._relay = relay
        self._app = app
        self._callers = callers

    def count(self) -> None:
        self.requests += 1

    async def serve(self, exchange: Exchange, opened: Opened) -> None:
        # The relay itself asks for cards, as a caller that may call nothing.
        if opened.caller.operations != ():
            self.count()
        handle = self.handles.get(opened.agent, "")
        address = address_of(unquote(opened.target.partition("?")[0]))
        is_address = address is not None and address.agent == opened.agent
        # RFC 9112, 3.2: a target is in ASCII, whatever else it stands for.
        if not handle or not is_address or not opened.target.isascii():
            # The relay reaches the agents that were offered to it, and nothing else of the gateway.
            exchange.refuse("nothing of the agent is at this address")
            return
        principal = principal_of(opened.caller, relay=self._relay, handle=handle)
        credential = self._callers.admit(principal)
        try:
            await exchange.serve(self._app, credential)
        finally:
            self._callers.leave(credential)
