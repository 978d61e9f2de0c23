"""`trunkline login` and `trunkline logout`: a session at a gateway, by way of the browser."""

import hmac
import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import typer
from msgspec import Struct

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.output import one_line, prepare_streams
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

    from trunkline.cli.remote.sessions import StoredSession
    from trunkline.remote.http import Answer

DEFAULT_URL: Final = "http://127.0.0.1:8642"
_PATH: Final = "/callback"
_MAX_BYTES: Final = 256 * 1024
Url = Annotated[
    str, typer.Argument(metavar="URL", help="Address of the gateway (URL, host:port or :port).")
]


class _User(Struct):
    login: str


class _Session(Struct, rename="camel"):
    token: str
    expires_at: str


class _SignedIn(Struct):
    user: _User
    session: _Session


class _Refused(Exception):
    """The gateway or the provider refused; the text is for the user."""


def login(
    url: Url = DEFAULT_URL,
    *,
    browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Open the browser, or only print the URL."),
    ] = True,
    timeout: Annotated[
        float, options.seconds_option("Maximum time for the sign-in in the browser.")
    ] = 300.0,
) -> Exit:
    """Sign in to a gateway with a hub.

    Opens the sign-in of the gateway in the browser, waits for it on a local port, and stores the
    session in a file that only you can read. Commands that call agents of this gateway use the
    session where they have no other credential. It is never sent to another address.
    """
    import asyncio

    from trunkline.cli.remote.sessions import Sessions
    from trunkline.remote import RemoteError

    prepare_streams()
    base = base_of(url)
    try:
        session = asyncio.run(_sign_in(base, opens_browser=browser, timeout_s=timeout))
    except TimeoutError:
        complain(f"the sign-in was not completed within {timeout:g} s.")
        return Exit.TIMEOUT
    except _Refused as error:
        complain(str(error))
        return Exit.NO_ACCESS
    except RemoteError as error:
        complain(f"{base}: {error.message}.")
        return Exit.UNREACHABLE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    Sessions().save(session)
    print(f"Signed in to {base} as {one_line(session.login)}, until {session.expires_at}.")
    return Exit.DONE


def logout(url: Url = DEFAULT_URL) -> Exit:
    """Revoke the session of `trunkline login`, and delete it from this machine."""
    import asyncio

    from trunkline.cli.remote.sessions import Sessions
    from trunkline.remote import RemoteError

    prepare_streams()
    base, sessions = base_of(url), Sessions()
    try:
        session = sessions.at(base)
    except ConfigError:
        # Other users can read it, so it is revoked all the more; but its file is not trusted.
        session = None
    sessions.remove(base)
    if session is None:
        print(f"There is no session for {base}.")
        return Exit.DONE
    try:
        asyncio.run(_sign_out(session))
    except (RemoteError, TimeoutError) as error:
        what = error.message if isinstance(error, RemoteError) else "it does not answer"
        complain(
            f"{base}: {what}. The session is deleted here, and counts there until "
            f"{session.expires_at}."
        )
        return Exit.UNREACHABLE
    print(f"Signed out of {base}.")
    return Exit.DONE


def base_of(url: str) -> str:
    """The base URL of a gateway as the user typed it. Raises ConfigError."""
    from trunkline.cli.remote.addresses import url_of
    from trunkline.remote import InvalidTarget
    from trunkline.remote.target import check_url
    from trunkline.settings.server import is_loopback_url

    base = (url_of(url) or url).rstrip("/")
    try:
        check_url(base)
    except InvalidTarget as error:
        raise ConfigError(f"{error.message}.") from None
    parts = urlsplit(base)
    if parts.query or parts.fragment:
        raise ConfigError(f"{base}: expected the address of a gateway, without a query.")
    if parts.scheme != "https" and not is_loopback_url(base):
        raise ConfigError(
            f"{base}: a session over plain HTTP can be read on its way. Use https:// there."
        )
    return base


async def _sign_in(base: str, *, opens_browser: bool, timeout_s: float) -> "StoredSession":
    import asyncio
    import webbrowser

    from trunkline.cli.remote.sessions import StoredSession
    from trunkline.hub.sign_in_flow import challenge_of

    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    async with asyncio.timeout(timeout_s):
        callback = _Callback(state)
        server = await asyncio.start_server(callback.serve, "127.0.0.1", 0, limit=16 * 1024)
        try:
            port = server.sockets[0].getsockname()[1]
            query = {
                "redirect_uri": f"http://127.0.0.1:{port}{_PATH}",
                "state": state,
                "code_challenge": challenge_of(verifier),
                "code_challenge_method": "S256",
            }
            start = f"{base}/api/v1/auth/oauth/start?{urlencode(query)}"
            print(f"Sign in with the browser of this machine:\n  {start}", file=sys.stderr)
            if opens_browser:
                await asyncio.to_thread(webbrowser.open, start)
            code = await callback.code
        finally:
            server.close()
        body = {"code": code, "code_verifier": verifier}
        answer = await _post(base, "/api/v1/auth/oauth/token", body=body)
    if answer.status != 200:
        raise _Refused(f"{base} gives no session (status {answer.status}): {_reason(answer.body)}")
    try:
        signed_in = msgspec.json.decode(answer.body, type=_SignedIn)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _Refused(f"{base} gives no session that this program understands.") from None
    return StoredSession(
        url=base,
        login=signed_in.user.login,
        token=signed_in.session.token,
        expires_at=signed_in.session.expires_at,
    )


async def _sign_out(session: "StoredSession") -> None:
    import asyncio

    async with asyncio.timeout(30.0):
        # A session that has ended is refused, which is as good.
        await _post(session.url, "/api/v1/auth/sign-out", token=session.token)


async def _post(
    base: str, path: str, *, body: dict[str, Any] | None = None, token: str = ""
) -> "Answer":
    """Raises RemoteError. Redirects are not followed."""
    from trunkline.remote import Limits
    from trunkline.remote.http import Guard, HttpClient, build_request

    headers = {"Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if token:
        headers["Authorization"] = f"Bearer {token}"
    client = HttpClient(Guard.of(base))
    try:
        data = b"" if body is None else msgspec.json.encode(body)
        request = build_request("POST", base + path, headers, data)
        return await client.fetch(request, Limits(), max_bytes=_MAX_BYTES)
    finally:
        await client.close()


def _reason(body: bytes) -> str:
    try:
        tree = msgspec.json.decode(body)
        error = tree.get("error")
        text = error.get("message") if isinstance(error, dict) else tree.get("error_description")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        text = None
    return one_line(str(text)) if text else "it gives no reason"


class _Callback:
    """Takes the one request that the gateway sends the browser to."""

    def __init__(self, state: str) -> None:
        import asyncio

        self._state = state
        self.code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(self, reader: "asyncio.StreamReader", writer: "asyncio.StreamWriter") -> None:
        import asyncio

        try:
            async with asyncio.timeout(10.0):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text = self._answer(head.split(b"\r\n", 1)[0].decode("latin-1"))
                body = _page(text)
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                    "Content-Security-Policy: default-src 'none'\r\nCache-Control: no-store\r\n"
                    f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whatever that was, it was not the browser
        finally:
            writer.close()

    def _answer(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        query = dict(parse_qsl(target.query))
        if method != "GET" or target.path != _PATH:
            return "404 Not Found", "Nothing is here."
        # Another page may have made the browser come here.
        state = query.get("state", "")
        if not hmac.compare_digest(state.encode("utf-8", "replace"), self._state.encode()):
            return "400 Bad Request", "This sign-in was not started by this program."
        if self.code.done():
            return "400 Bad Request", "This sign-in is over."
        if "code" not in query:
            error = one_line(query.get("error", "no code"))[:100]
            self.code.set_exception(_Refused(f"the sign-in failed: {error}."))
            return "200 OK", "The sign-in failed. You can close this window."
        self.code.set_result(query["code"])
        return "200 OK", "You are signed in. You can close this window."


def _page(text: str) -> bytes:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>trunkline login</title>'
        f"<p>{text}</p></html>\n"
    ).encode()
