"""`Jwks`: the public keys of an issuer, which change while the gateway runs."""

import asyncio
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trunkline.model.errors import Unavailable
from trunkline.ports.clock import Clock
from trunkline.protocol.jwt import Jwt, has_key_for, keys_in
from trunkline.remote.errors import RemoteError
from trunkline.remote.http import Guard, HttpClient, Network, build_request
from trunkline.remote.target import Limits

if TYPE_CHECKING:
    from joserfc.jwk import Key

_log = logging.getLogger("trunkline.remote")

MAX_BYTES: Final = 512 * 1024
FETCH_S: Final = 5.0
# How often keys are read again, so that a key that the issuer has withdrawn counts no more.
KEPT_S: Final = 600.0
# For how long keys count while the issuer cannot be reached.
TRUSTED_S: Final = 3600.0
# A token can name a key that does not exist, so unknown keys are asked for no more often than this.
AGAIN_S: Final = 30.0
_RETRY_AFTER_S: Final = 10


class Jwks:
    def __init__(
        self,
        name: str,
        *,
        url: str = "",
        path: str = "",
        clock: Clock,
        allow_private: bool = False,
        network: Network | None = None,
    ) -> None:
        """The keys are at the URL or in the file at the path. `name` is that of the issuer in the
        log."""
        self._name = name
        self._url = url
        self._path = path
        self._clock = clock
        # The address is from the configuration, so it may be anywhere; redirects are not followed.
        guard = Guard.of(*([url] if url else ()), allow_private=allow_private)
        self._client = HttpClient(guard, network=network)
        self._keys: list[Key] = []
        self._read_at = -math.inf
        self._tried_at = -math.inf
        self._reading = asyncio.Lock()

    async def close(self) -> None:
        await self._client.close()

    def known(self, token: Jwt) -> "list[Key] | None":
        """The keys, if those that are held are recent and one of them may have signed the token."""
        is_recent = self._clock.monotonic() < self._read_at + KEPT_S
        return self._keys if is_recent and has_key_for(token, self._keys) else None

    async def keys_for(self, token: Jwt) -> "list[Key]":
        """Raises Unavailable while the keys cannot be read."""
        found = self.known(token)
        if found is not None:
            return found
        async with self._reading:
            now = self._clock.monotonic()
            if self.known(token) is None and now >= self._tried_at + AGAIN_S:
                self._tried_at = now
                await self._read(now)
        if self._clock.monotonic() >= self._read_at + TRUSTED_S:
            raise Unavailable(
                "The keys of the issuer cannot be read at the moment; try again later",
                retry_after_s=_RETRY_AFTER_S,
            )
        return self._keys

    async def _read(self, now: float) -> None:
        try:
            self._keys = keys_in(await self._bytes())
            self._read_at = now
        except (RemoteError, OSError, TimeoutError, ValueError) as error:
            _log.warning(
                "the keys of an issuer of tokens cannot be read",
                extra={"issuer": self._name, "reason": str(error) or type(error).__name__},
            )

    async def _bytes(self) -> bytes:
        if self._path:
            return await asyncio.to_thread(Path(self._path).read_bytes)
        request = build_request("GET", self._url, {"Accept": "application/json"}, None)
        async with asyncio.timeout(FETCH_S):
            answer = await self._client.fetch(request, Limits(), max_bytes=MAX_BYTES)
        if answer.status != 200:
            raise ValueError(f"its address answers with status {answer.status}")
        return answer.body
