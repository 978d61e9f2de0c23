"""`Authorization`: the headers of calls to one target, and the OAuth token that they may need."""

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from trunkline.model.calls import Operation
from trunkline.ports.clock import Clock
from trunkline.protocol.operations import STREAMING
from trunkline.remote.credentials import ClientCredentials
from trunkline.remote.errors import BadPeerAnswer, PeerRefused
from trunkline.remote.http import SSE, Guard, HttpClient, Network, build_request
from trunkline.remote.interfaces import Endpoint
from trunkline.remote.retries import call_timeout
from trunkline.remote.target import Limits, Target, own_headers

ACCEPT: Final = "application/json, application/a2a+json"
# A token is renewed this long before it expires, so that none expires on its way.
_MARGIN_S: Final = 30.0
_UNSTATED_S: Final = 300.0
# Headers that a call needs and that hold no secret. An origin that only a card names gets no
# others.
_NOT_SECRET: Final = frozenset(
    {
        "a2a-extensions",
        "x-a2a-extensions",
        "idempotency-key",
        "last-event-id",
        "traceparent",
        "tracestate",
    }
)


class _Token(Struct):
    access_token: str
    expires_in: float | None = None


class _Refusal(Struct):
    error: str = ""


class Authorization:
    def __init__(self, target: Target, clock: Clock, network: Network | None) -> None:
        self._target = target
        self._clock = clock
        self._own = own_headers(target.headers, target.credentials)
        # A header made from the credentials replaces a header of the target.
        self._credentials = target.credentials.headers() if target.credentials else {}
        self._client: ClientCredentials | None = None
        if isinstance(target.credentials, ClientCredentials):
            self._client = target.credentials
            # A client of its own, so that no card can lead to the token endpoint, which may be
            # private.
            guard = Guard.of(
                self._client.token_url,
                allow_private=target.allow_private,
                public_only=target.public_only,
            )
            self._http = HttpClient(guard, network=network)
        self.needs_token = self._client is not None
        self._token = ""
        self._renew_at = 0.0
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        if self._client is not None:
            await self._http.close()

    def secrets(self) -> tuple[str, ...]:
        return (*self._target.secrets(), self._token) if self._token else self._target.secrets()

    def for_card(self, extra: Mapping[str, str], *, as_caller: str | None = None) -> dict[str, str]:
        if as_caller is not None:
            return {**self._without_secrets(extra), **_bearer(as_caller), "Accept": ACCEPT}
        return {**self._own, **self._credentials, **extra, "Accept": ACCEPT}

    def for_call(
        self,
        endpoint: Endpoint,
        operation: Operation,
        extra: Mapping[str, str],
        *,
        as_caller: str | None = None,
    ) -> dict[str, str]:
        """`extra` has none of the headers that a call itself decides. `as_caller` is a token in
        place of the credentials of the target."""
        if as_caller is not None:
            headers = self._without_secrets(extra) | _bearer(as_caller)
        elif endpoint.is_trusted:
            headers = {**self._own, **extra, **self._credentials}
        else:
            headers = self._without_secrets(extra)
        headers["A2A-Version"] = endpoint.version
        headers["Content-Type"] = "application/json"
        headers["Accept"] = f"{SSE}, {ACCEPT}" if operation in STREAMING else ACCEPT
        return headers

    def _without_secrets(self, extra: Mapping[str, str]) -> dict[str, str]:
        given = {**self._own, **extra}
        return {name: given[name] for name in given if name.lower() in _NOT_SECRET}

    async def token(self) -> str:
        """The token of the next call, fetched if needed; "" if no token is needed."""
        if self._client is None:
            return ""
        async with self._lock:
            if not self._token or self._clock.monotonic() >= self._renew_at:
                token = await self._fetch_token(self._client)
                good_s = _UNSTATED_S if token.expires_in is None else token.expires_in
                self._renew_at = self._clock.monotonic() + good_s - min(_MARGIN_S, good_s / 2)
                self._token = token.access_token
                self._credentials = {"Authorization": f"Bearer {self._token}"}
            return self._token

    def forget(self, refused: str) -> None:
        """After a 401. A caller that comes late with an old token does not drop the new one."""
        if self._token == refused:
            self._token = ""

    async def _fetch_token(self, client: ClientCredentials) -> _Token:
        limits = Limits()
        headers = {
            "Authorization": client.basic(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        body = urlencode(client.form()).encode()
        request = build_request("POST", client.token_url, headers, body)
        with call_timeout(limits.card_s):
            answer = await self._http.fetch(request, limits, max_bytes=limits.max_card_bytes)
        refusal = _Refusal()
        try:
            if answer.status == 200:
                # Some endpoints write the number as a text.
                return msgspec.json.decode(answer.body, type=_Token, strict=False)
            refusal = msgspec.json.decode(answer.body, type=_Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if answer.status == 200:
                why = "the token endpoint answers without a token"
                raise BadPeerAnswer(why, reason="BAD_TOKEN") from None
        why = f": {refusal.error[:64]}" if refusal.error else ""
        raise PeerRefused(
            f"the token endpoint refuses us with status {answer.status}{why}",
            reason="TOKEN_REFUSED",
            status=answer.status,
        )


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
