"""`V1Attachment`: the host at a relay of protocol v1, which has neither leases nor a way to move
requests to another connection."""

from collections.abc import Mapping
from typing import Final

from trunkline.protocol.relay.close_codes import Close
from trunkline.relay.carrier import Socket
from trunkline.relay.v1.host import V1Host


class V1Attachment:
    has_offered: Final = True
    retry_after_s: Final = 0.0
    round_trip_s: Final = None

    def __init__(self, host: V1Host, *, relay: str) -> None:
        self.relay: Final = relay
        self.is_leaving = False
        self._host = host
        self._is_open = False

    @property
    def is_connected(self) -> bool:
        return bool(self._host.attached)

    @property
    def leases(self) -> Mapping[str, int]:
        return {self._host.attached: 0} if self._host.attached else {}

    @property
    def is_over(self) -> bool:
        return self.is_leaving and not self._is_open

    async def carry(self, socket: Socket, token: str) -> Close:
        self._is_open = True
        try:
            return await self._host.carry(socket, token)
        finally:
            self._is_open = False

    def tick(self) -> None:
        """The connection has its own."""

    def offer(self) -> None:
        """The relay has learned of the agent by the token."""

    def drain(self, within_s: float) -> None:
        self.is_leaving = True
        self._host.drain()
