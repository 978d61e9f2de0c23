"""`ConsolePages`: serves `/` and `/console/...` as an ASGI application."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from trunkline.console.page.codes import OneUseCodes
from trunkline.console.page.cookies import set_cookie
from trunkline.console.page.files import INDEX, StaticFile, StaticFiles
from trunkline.console.page.headers import HEADERS
from trunkline.console.page.sessions import SESSION_S, ConsoleSessions
from trunkline.model.errors import StoreError, TooManyRequests, Unavailable

_log = logging.getLogger("trunkline.console")

FOLDER_PATH: Final = "/console"
# Where the page says that a code was used before, is too old, or never was one.
CODE_USED: Final = "/#code-used"


class ConsolePages:
    def __init__(
        self,
        files: StaticFiles,
        *,
        codes: OneUseCodes,
        sessions: ConsoleSessions,
        cookie: str,
        is_own_host: Callable[[bytes], bool],
        is_direct: Callable[[Request], bool],
    ) -> None:
        """`is_own_host` says whether a `Host` header names this gateway, and `is_direct` whether a
        request came from this machine, through no proxy, to a loopback address."""
        self._files = files
        self._codes = codes
        self._sessions = sessions
        self._cookie = cookie
        self._is_own_host = is_own_host
        self._is_direct = is_direct

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = await self._answer(Request(scope, receive))
        response.headers.update({k: v for k, v in HEADERS.items() if k not in response.headers})
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        # Before anything else: DNS rebinding leads pages of other names here.
        if not self._is_own_host(request.headers.get("host", "").encode("latin-1")):
            return _text(421, "This gateway has no page under this host name.")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "The page takes GET and HEAD.", {"Allow": "GET, HEAD"})
        path = request.scope["path"]
        if path == "/" and "code" in request.query_params and request.method == "GET":
            return await self._redeem(request)
        name = path.removeprefix(f"{FOLDER_PATH}/") if path.startswith(FOLDER_PATH) else ""
        if name in ("", FOLDER_PATH):
            name = INDEX
        file = self._files.find(name)
        if file is None:
            return _text(404, "The page has no such file; it begins at /.")
        return self._file(file, request)

    async def _redeem(self, request: Request) -> Response:
        """Trade a code for a session."""
        headers = request.headers
        if "prefetch" in (headers.get("sec-purpose", "") + headers.get("purpose", "")).lower():
            # The browser throws this answer away, and asks again when the person opens the URL.
            return _text(503, "The page is not fetched ahead.")
        used = RedirectResponse(CODE_USED, 303, {"Cache-Control": "no-store"})
        if not self._is_direct(request) or not _is_navigation(request):
            return used
        code = request.query_params["code"]
        source = "" if request.client is None else request.client.host
        try:
            if not self._codes.redeem(code, source):
                return used
            secret = await self._sessions.begin()
        except TooManyRequests as error:
            return _text(429, f"{error.message}.", {"Retry-After": str(error.retry_after_s)})
        except (StoreError, Unavailable) as error:
            self._codes.give_back(code)
            _log.warning("a session of the page cannot begin", extra={"reason": error.message})
            return _text(503, "The gateway cannot use its store at the moment; try again later.")
        cookie = set_cookie(self._cookie, secret, max_age_s=SESSION_S, is_secure=False)
        return RedirectResponse("/", 303, {"Cache-Control": "no-store", "Set-Cookie": cookie})

    def _file(self, file: StaticFile, request: Request) -> Response:
        body, tag = file.body, f'"{file.digest}"'
        headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if _takes_gzip(request):
            compressed = self._files.compressed(file)
            if compressed is not None:
                body, tag = compressed, f'"{file.digest}-gzip"'
                headers["Content-Encoding"] = "gzip"
        headers["ETag"] = tag
        known = request.headers.get("if-none-match", "")
        if known.strip() == "*" or tag in (_strong(each) for each in known.split(",")):
            headers.pop("Content-Encoding", None)
            return Response(status_code=304, headers=headers)
        return Response(body, headers={**headers, "Content-Type": file.media_type})


def _is_navigation(request: Request) -> bool:
    """Whether a person may have opened the URL of a code. A page of another site can make a browser
    ask for it, and so use up the attempts."""
    headers = request.headers
    is_page = headers.get("sec-fetch-dest", "document") == "document"
    return is_page and headers.get("sec-fetch-site", "none") != "cross-site"


def _takes_gzip(request: Request) -> bool:
    for each in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _strong(tag: str) -> str:
    # RFC 9110, 13.1.2: If-None-Match compares weakly.
    return tag.strip().removeprefix("W/")


def _text(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    own = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}
    return Response(f"{text}\n", status, {**own, **(headers or {})})
