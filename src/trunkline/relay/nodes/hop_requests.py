"""`HopRequests`: serves what other relay nodes pass on to the agents that are attached here.

It never passes a request on to a third node, so a request takes one hop at most.
"""

from functools import partial
from typing import Final, TypeAlias

from trunkline.background import BackgroundTasks
from trunkline.model.errors import Unavailable
from trunkline.protocol.relay.events import Opened
from trunkline.protocol.relay.hop_sessions import HolderSession
from trunkline.relay.carrier import Carrier
from trunkline.relay.hosts.exchanges import Exchange
from trunkline.relay.nodes.bridge import Bridge
from trunkline.relay.relay import Relay
from trunkline.relay.requests import RelayedRequests

_Carrier: TypeAlias = Carrier[HolderSession]
# How long a request waits for a host whose connection was just lost.
WAIT_S: Final = 5.0


class HopRequests:
    def __init__(self, relay: Relay, requests: RelayedRequests, *, tasks: BackgroundTasks) -> None:
        self._relay = relay
        self._requests = requests
        self._tasks = tasks

    def serve(self, hop: _Carrier, opened: Opened) -> None:
        # Here and not in the task, so that the pieces behind it find their stream.
        bridge = Bridge(hop, opened, tasks=self._tasks)
        self._tasks.spawn(self._serve(hop, opened, bridge), name="request of a relay node")

    async def _serve(self, hop: _Carrier, opened: Opened, bridge: Bridge) -> None:
        try:
            attached = await self._relay.connected_here(opened.agent, opened.epoch, within_s=WAIT_S)
        except Unavailable as error:
            bridge.refuse(error.message)
            return
        if attached is None:
            bridge.refuse("the agent is not here any more")
        elif opened.task:
            await bridge.serve(attached.carrier)
        elif self._requests.passes_unread(opened.agent, opened.caller, attached):
            with self._requests.counted_at_host(opened.caller, attached):
                await bridge.serve(attached.carrier)
        else:
            app = partial(self._requests.serve_passed_on, caller=opened.caller, way=attached)
            await Exchange(hop, opened, stream=bridge.stream).serve(app)
