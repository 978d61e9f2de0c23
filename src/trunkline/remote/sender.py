"""What goes to one target: requests with its headers and credentials, over its connections."""

from collections.abc import Mapping
from typing import Final

from trunkline.ports.clock import Clock
from trunkline.protocol.client_requests import Call
from trunkline.protocol.operations import STREAMING, Operation
from trunkline.remote.credentials import ClientCredentials, header_of
from trunkline.remote.http import SSE, Answer, Guard, HttpClient, Network, StreamedResponse
from trunkline.remote.interfaces import Endpoint
from trunkline.remote.target import Limits, Target, own_headers
from trunkline.remote.tokens import Authorization
from trunkline.remote.within import within

_JSON: Final = "application/json"
_ACCEPT: Final = "application/json, application/a2a+json"

# What a call needs and what is no secret: all that goes to an origin which only a card names.
_FOR_EVERYBODY: Final = frozenset(
    {
        "a2a-extensions",
        "x-a2a-extensions",
        "idempotency-key",
        "last-event-id",
        "traceparent",
        "tracestate",
    }
)


class Sender:
    def __init__(self, target: Target, clock: Clock, guard: Guard, network: Network | None) -> None:
        self._target = target
        self._http = HttpClient(guard, network=network)
        # By itself, so that no card can lead to the token endpoint, which may be private.
        self._token_http: HttpClient | None = None
        if isinstance(target.credentials, ClientCredentials):
            self._token_http = HttpClient(Guard.of(target.credentials.token_url), network=network)
        # One that credentials make takes the place of one that is given.
        self._headers = own_headers(target.headers, *header_of(target.credentials))
        self._authorization = Authorization(target.credentials, clock, self._post_form)
        # Those that are the same for every call, unless a token has to be fetched.
        self._fixed = self._authorization.fixed()
        self.has_fixed_credentials = self._fixed is not None

    async def close(self) -> None:
        await self._http.close()
        if self._token_http is not None:
            await self._token_http.close()

    def secrets(self) -> tuple[str, ...]:
        return (*self._target.secrets(), *self._authorization.secrets)

    async def token(self) -> str:
        """That which calls are made with now, if one has to be fetched. Raises RemoteError."""
        return await self._authorization.token()

    def forget_token(self, refused: str) -> None:
        """After a 401: the next call fetches another."""
        self._authorization.forget(refused)

    async def fetch(
        self,
        endpoint: Endpoint,
        call: Call,
        operation: Operation,
        extra: Mapping[str, str],
        limits: Limits,
    ) -> Answer:
        """The whole answer. `extra` headers are free of those that a call itself decides."""
        return await self._http.fetch(
            call.method,
            endpoint.url + call.path,
            headers=await self._for_call(endpoint, operation, extra),
            body=call.body,
            limits=limits,
            max_bytes=limits.max_body_bytes,
        )

    async def open(
        self,
        endpoint: Endpoint,
        call: Call,
        operation: Operation,
        extra: Mapping[str, str],
        limits: Limits,
        within_s: float,
    ) -> StreamedResponse:
        """An answer to read in pieces."""
        return await self._http.open(
            call.method,
            endpoint.url + call.path,
            headers=await self._for_call(endpoint, operation, extra),
            body=call.body,
            limits=limits,
            within_s=within_s,
        )

    async def _for_call(
        self, endpoint: Endpoint, operation: Operation, extra: Mapping[str, str]
    ) -> dict[str, str]:
        accept = f"{SSE}, {_ACCEPT}" if operation in STREAMING else _ACCEPT
        if not endpoint.is_trusted:
            given = {**self._headers, **extra}
            return {
                **{name: given[name] for name in given if name.lower() in _FOR_EVERYBODY},
                "A2A-Version": endpoint.version,
                "Content-Type": _JSON,
                "Accept": accept,
            }
        fixed = self._fixed
        return {
            **self._headers,
            **extra,
            **(await self._authorization.headers() if fixed is None else fixed),
            "A2A-Version": endpoint.version,
            "Content-Type": _JSON,
            "Accept": accept,
        }

    async def fetch_card(self, limits: Limits, extra: Mapping[str, str]) -> Answer:
        headers = {
            **self._headers,
            **await self._authorization.headers(),
            **extra,
            "Accept": _ACCEPT,
        }
        with within(limits.card_s):
            return await self._http.fetch(
                "GET",
                self._target.card_url,
                headers=headers,
                body=None,
                limits=limits,
                max_bytes=limits.max_card_bytes,
            )

    async def _post_form(self, url: str, headers: dict[str, str], body: bytes) -> Answer:
        limits = Limits()
        assert self._token_http is not None
        with within(limits.card_s):
            return await self._token_http.fetch(
                "POST",
                url,
                headers=headers,
                body=body,
                limits=limits,
                max_bytes=limits.max_card_bytes,
            )
