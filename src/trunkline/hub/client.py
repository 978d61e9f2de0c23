"""`connect_hub`: the Python client of the HTTP interface of a hub, with and without asyncio.

`client_calls` has a method for each route. Every call raises RemoteError, and nothing else, for a
fault of the gateway or the network; `HubRefused` is the one for an answer that says no.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from trunkline.clock import SystemClock
from trunkline.hub.client_calls import HubCalls
from trunkline.hub.client_calls_sync import SyncHubCalls
from trunkline.hub.client_http import HubHttp, HubRefused
from trunkline.ports.clock import Clock
from trunkline.remote.errors import RemoteError
from trunkline.remote.http.pool import closed_by_us
from trunkline.remote.target import Limits

__all__ = ["HubClient", "HubRefused", "RemoteError", "SyncHub", "connect_hub", "connect_hub_sync"]

T = TypeVar("T")


class HubClient(HubCalls):
    """The calls of one hub, over connections that are kept open."""

    async def __aenter__(self) -> "HubClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.close()


class SyncHub(SyncHubCalls):
    """Every call waits. For one thread at a time, and not inside of a running event loop."""

    def __init__(self, hub: HubClient) -> None:
        super().__init__(hub)
        self._hub = hub
        self._runner = asyncio.Runner()
        self._is_closed = False

    def __enter__(self) -> "SyncHub":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._is_closed:
            self._run(self._hub.close())
            self._is_closed = True
            self._runner.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._is_closed:
            coroutine.close()
            raise closed_by_us()
        return self._runner.run(coroutine)


def connect_hub(
    url: str,
    *,
    token: str = "",
    cookie: str = "",
    timeout_s: float | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> HubClient:
    """The hub of the gateway at the URL: `async with connect_hub(url, token=token) as hub`.

    `token` is a session token, a token of a service or an API key; `cookie` is the session of a
    browser, as `NAME=VALUE`. Nothing is sent before the first call. Raises InvalidTarget.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if cookie:
        headers["Cookie"] = cookie
    limits = limits or Limits()
    if timeout_s is not None:
        limits = replace(limits, call_s=timeout_s)
    http = HubHttp(url, headers=headers, limits=limits, clock=clock or SystemClock())
    return HubClient(http)


def connect_hub_sync(
    url: str,
    *,
    token: str = "",
    cookie: str = "",
    timeout_s: float | None = None,
    limits: Limits | None = None,
) -> SyncHub:
    """`with connect_hub_sync(url, token=token) as hub`; the arguments are those of
    `connect_hub`."""
    return SyncHub(connect_hub(url, token=token, cookie=cookie, timeout_s=timeout_s, limits=limits))
