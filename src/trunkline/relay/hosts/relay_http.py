"""`Http`: the requests that one connection to a relay is made of."""

from collections.abc import Mapping
from typing import Protocol

from trunkline.protocol.relay.polling import MAX_BATCH_BYTES
from trunkline.relay.hosts.dialing import CONNECT_S
from trunkline.remote.http import Answer, Guard, HttpClient, build_request
from trunkline.remote.target import Limits


class Http(Protocol):
    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        """Raises RemoteError. The caller limits the time it may take."""
        ...

    async def close(self) -> None: ...


class OwnHttp:
    """By the client of the gateway."""

    def __init__(self, url: str) -> None:
        self._client = HttpClient(Guard.of(url))

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        request = build_request(method, url, headers, body)
        limits = Limits(connect_s=CONNECT_S)
        return await self._client.fetch(request, limits, max_bytes=MAX_BATCH_BYTES)

    async def close(self) -> None:
        await self._client.close()
