"""`SessionApi`: who the caller is, and the end of its session, on gateways without a hub; and the
exchange of an API key for a session."""

import hashlib
from collections.abc import Callable, Collection, Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from trunkline.api.api import Call, Route
from trunkline.api.me import KeyBody, Me
from trunkline.console.page.cookies import HEADER, session_secret, set_cookie
from trunkline.console.page.sessions import SESSION_S, ConsoleSessions, is_console
from trunkline.engine.attempts import AttemptCounter, Rate, source_of
from trunkline.model.errors import PermissionDenied, TooManyRequests, Unauthenticated
from trunkline.ports.clock import Clock

# A person pastes a key; a program that guesses gets nowhere.
WRONG_KEYS: Final = Rate(10, 6.0)
_TAG: Final = "auth"


class SessionApi:
    def __init__(
        self,
        sessions: ConsoleSessions,
        *,
        cookie: str,
        is_secure: Callable[[Request], bool],
        check_page: Callable[[Request], None],
        is_key: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        """`is_secure` says whether the browser sends the cookie over https alone. `check_page`
        raises PermissionDenied for a request that is not of a page of this gateway. `is_key` says
        whether the SHA-256 of a key, in hex, is that of one of the configuration."""
        self._sessions = sessions
        self._cookie = cookie
        self._is_secure = is_secure
        self._check_page = check_page
        self._is_key = is_key
        self._clock = clock
        self._wrong = AttemptCounter(WRONG_KEYS)

    def routes(self, *, known: Collection[str] = ()) -> Iterator[Route]:
        """Without those that a hub has under these names."""
        made = (
            Route(
                method="GET",
                path="/auth/me",
                name="get_me",
                tag=_TAG,
                summary="Show who the caller is.",
                handle=self.me,
                result=Me,
            ),
            Route(
                method="POST",
                path="/auth/sign-out",
                name="sign_out",
                tag=_TAG,
                summary="Revoke the session of the caller, and clear its cookie.",
                handle=self.sign_out,
                is_public=True,
                takes_credential=False,
            ),
            Route(
                method="POST",
                path="/auth/key",
                name="exchange_key",
                tag=_TAG,
                summary="Exchange an API key of the configuration for a session of the page.",
                description="The session is in a cookie, which counts only together with the "
                "header `Trunkline-Page: 1`. It stands for the key, and ends with it.",
                handle=self.exchange,
                body=KeyBody,
                texts={"KeyBody.key": "The API key."},
                is_public=True,
                takes_credential=False,
                errors=(415, 429),
            ),
        )
        return (route for route in made if route.name not in known)

    async def me(self, call: Call) -> Me:
        caller = call.caller
        # An anonymous caller is any program of the machine, not a person who has signed in.
        if caller.is_anonymous and not is_console(caller):
            raise Unauthenticated(
                "The page is not signed in; run `trunkline open` on the machine of the gateway"
            )
        return Me(principal=caller.id, roles=caller.roles, token=caller.token)

    async def sign_out(self, call: Call) -> Response:
        response = Response(status_code=204, headers={"Cache-Control": "no-store"})
        for cookie in await self.end(call.request):
            response.headers.append("Set-Cookie", cookie)
        return response

    async def end(self, request: Request) -> list[str]:
        """End the session of a request, if it has one. Returns cookies to set. Raises
        StoreError."""
        if request.headers.get(HEADER.decode()) != "1":
            return []
        headers = {name: value for name, value in request.headers.raw}
        if secret := session_secret(headers, self._cookie):
            await self._sessions.end(secret)
        return [set_cookie(self._cookie, "", max_age_s=0, is_secure=self._is_secure(request))]

    async def exchange(self, call: Call) -> Response:
        request, body = call.request, call.body
        if request.headers.get(HEADER.decode()) != "1":
            raise PermissionDenied("Only the page of the gateway may do this")
        self._check_page(request)
        source = source_of(request.client.host) if request.client is not None else ""
        now = self._clock.monotonic()
        if wait_s := self._wrong.wait_s(source, now):
            raise TooManyRequests(
                "Too many wrong keys; wait and try again", retry_after_s=int(wait_s) + 1
            )
        # Before the check, so that attempts at the same time count as well.
        self._wrong.take(source, now)
        # The time of a look-up by the digest reveals nothing about the key.
        digest = hashlib.sha256(body.key.strip().encode()).hexdigest()
        if not self._is_key(digest):
            raise Unauthenticated("The key is not known here", has_credential=True)
        self._wrong.give_back(source)
        secret = await self._sessions.begin(key=digest)
        cookie = set_cookie(
            self._cookie, secret, max_age_s=SESSION_S, is_secure=self._is_secure(request)
        )
        headers = {"Cache-Control": "no-store", "Set-Cookie": cookie}
        return Response(status_code=204, headers=headers)
