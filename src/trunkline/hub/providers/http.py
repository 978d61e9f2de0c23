"""`ProviderHttp`: small requests to a provider, within limits in time and size."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from trunkline.model.errors import Unavailable
from trunkline.remote.errors import RemoteError
from trunkline.remote.http import Guard, HttpClient, Network, build_request
from trunkline.remote.target import Limits

_log = logging.getLogger("trunkline.hub")

# A person waits for each of them.
FETCH_S: Final = 10.0
MAX_BYTES: Final = 512 * 1024
_RETRY_AFTER_S: Final = 10

T = TypeVar("T")


class Fetched(Struct, frozen=True):
    status: int
    body: bytes


class ProviderHttp:
    """The addresses of the configuration may be anywhere; those that a provider names must be
    public."""

    def __init__(
        self,
        name: str,
        *urls: str,
        allow_private: bool = False,
        network: Network | None = None,
        fetch_s: float = FETCH_S,
    ) -> None:
        self._name = name
        self._fetch_s = fetch_s
        self._client = HttpClient(Guard.of(*urls, allow_private=allow_private), network=network)

    async def close(self) -> None:
        await self._client.close()

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Fetched:
        """Raises Unavailable."""
        sent = {"Accept": "application/json", **(headers or {})}
        body = None
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form).encode()
        try:
            async with asyncio.timeout(self._fetch_s):
                request = build_request(method, url, sent, body)
                answer = await self._client.fetch(request, Limits(), max_bytes=MAX_BYTES)
        except RemoteError as error:
            raise self.failed(error.message) from None
        except TimeoutError:
            raise self.failed(f"it does not answer within {self._fetch_s:g} s") from None
        return Fetched(answer.status, answer.body)

    def decoded(self, fetched: Fetched, form: type[T], *, what: str) -> T:
        """The JSON of an answer with status 200. Raises Unavailable."""
        if fetched.status != 200:
            raise self.failed(f"{what} has status {fetched.status}")
        try:
            return msgspec.json.decode(fetched.body, type=form, strict=False)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.failed(f"{what} is not the JSON that was expected") from None

    def failed(self, reason: str) -> Unavailable:
        """The log has the reason; people who sign in can do nothing about it."""
        _log.warning(
            "a sign-in provider does not work", extra={"provider": self._name, "reason": reason}
        )
        return Unavailable(
            "The sign-in provider does not work at the moment; try again later",
            retry_after_s=_RETRY_AFTER_S,
        )
