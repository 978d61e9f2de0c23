"""`ConsoleAuthenticator`: the principals of the page's sessions."""

from collections.abc import Callable

from trunkline.console.page.cookies import session_secret
from trunkline.console.page.sessions import ConsoleSessions
from trunkline.model.errors import PermissionDenied, Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers


class ConsoleAuthenticator:
    def __init__(
        self, sessions: ConsoleSessions, *, cookie: str, is_own_host: Callable[[bytes], bool]
    ) -> None:
        """`is_own_host` says whether a `Host` header names this gateway."""
        self._sessions = sessions
        self._cookie = cookie
        self._is_own_host = is_own_host

    def known(self, _: Headers) -> Principal | None:
        return None

    async def identify(self, headers: Headers) -> Principal | None:
        secret = session_secret(headers, self._cookie)
        if not secret:
            return None
        # DNS rebinding: a page of another name may be served by the address of this gateway.
        if not self._is_own_host(headers.get(b"host", b"")):
            raise PermissionDenied("The page is not served under this host name")
        principal = await self._sessions.principal(secret)
        if principal is None:
            raise Unauthenticated(
                "The session of the page has ended; open the page again", has_credential=True
            )
        return principal
