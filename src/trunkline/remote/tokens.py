"""What authorises a call: a fixed header, or a token that is fetched and renewed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from trunkline.ports.clock import Clock
from trunkline.remote.credentials import ApiKey, Bearer, ClientCredentials, Credentials
from trunkline.remote.errors import BadPeerAnswer, PeerRefused
from trunkline.remote.http import Answer

# A token is renewed that long before it ends, so that none ends on its way.
_MARGIN_S: Final = 30.0
_UNSTATED_S: Final = 300.0


class _Token(Struct):
    access_token: str
    expires_in: float | None = None


class _Refusal(Struct):
    error: str = ""


# Posts a form: url, headers, body.
Post: TypeAlias = Callable[[str, dict[str, str], bytes], Awaitable[Answer]]


class Authorization:
    """The headers that the credentials of one target make."""

    def __init__(self, credentials: Credentials | None, clock: Clock, post: Post) -> None:
        self._credentials = credentials
        self._clock = clock
        self._post = post
        self._token = ""
        self._renew_at = 0.0
        self._lock = asyncio.Lock()

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self._token,) if self._token else ()

    def fixed(self) -> dict[str, str] | None:
        """The headers, if no token has to be fetched for them."""
        match self._credentials:
            case Bearer(token=token):
                return {"Authorization": f"Bearer {token}"}
            case ApiKey(key=key, header=header):
                return {header: key}
            case ClientCredentials():
                return None
            case None:
                return {}

    async def headers(self) -> dict[str, str]:
        token = await self.token()
        return {"Authorization": f"Bearer {token}"} if token else self.fixed() or {}

    async def token(self) -> str:
        """The token that is sent now; none if the headers are fixed."""
        if isinstance(self._credentials, ClientCredentials):
            return await self._fetched(self._credentials)
        return ""

    def forget(self, refused: str) -> None:
        """After a 401. Whoever comes late with an old token leaves the new one alone."""
        if self._token == refused:
            self._token = ""

    async def _fetched(self, client: ClientCredentials) -> str:
        async with self._lock:
            if not self._token or self._clock.monotonic() >= self._renew_at:
                token = await self._ask(client)
                good_s = _UNSTATED_S if token.expires_in is None else token.expires_in
                margin_s = min(_MARGIN_S, good_s / 2)
                self._renew_at = self._clock.monotonic() + good_s - margin_s
                self._token = token.access_token
            return self._token

    async def _ask(self, client: ClientCredentials) -> _Token:
        headers = {
            "Authorization": client.basic(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        answer = await self._post(client.token_url, headers, urlencode(client.form()).encode())
        try:
            if answer.status == 200:
                # Some endpoints write the number as a text.
                return msgspec.json.decode(answer.body, type=_Token, strict=False)
            refusal = msgspec.json.decode(answer.body, type=_Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if answer.status == 200:
                raise BadPeerAnswer(
                    "the token endpoint answers without a token", reason="BAD_TOKEN"
                ) from None
            refusal = _Refusal()
        why = f": {refusal.error[:64]}" if refusal.error else ""
        raise PeerRefused(
            f"the token endpoint refuses us with status {answer.status}{why}",
            reason="TOKEN_REFUSED",
            status=answer.status,
        )
