"""`PollingWire`: HTTP requests in memory from hosts to a relay; tests lose or repeat them."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct
from tests.bindings.asgi import App, Asgi
from tests.bindings.asgi import Http as Request

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL, WebSocketClosed
from trunkline.protocol.relay.close_codes import Close
from trunkline.protocol.relay.polling import CONNECTIONS_PATH
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.relay.hosts.long_poll import LongPollSocket, dial_long_poll
from trunkline.relay.polling.polling import PollingHosts
from trunkline.remote.errors import PeerUnreachable
from trunkline.remote.http import Answer

POLLING_PATH = f"/agent{CONNECTIONS_PATH}"


class Lost(Struct, frozen=True):
    """The request is lost, or its response."""

    is_request: bool


class Twice(Struct, frozen=True):
    """The request comes twice; the host gets the first response."""


# What happens to a request; a status is the answer of a proxy.
Fate: TypeAlias = Lost | Twice | Answer
LOST_REQUEST, LOST_RESPONSE, TWICE = Lost(True), Lost(False), Twice()


class MemoryHttp:
    """The requests of one connection."""

    def __init__(self, app: App, fate: Callable[[str, str], Fate | None] = lambda *_: None) -> None:
        self._http = Asgi(app)
        self._fate = fate

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        fate = self._fate(method, url)
        match fate:
            case Answer():
                return fate
            case Lost(is_request=True):
                raise PeerUnreachable("lost")
            case _:
                answer = await self._send(method, url, headers, body)
        if isinstance(fate, Lost):
            raise PeerUnreachable("lost")
        if isinstance(fate, Twice):
            await self._send(method, url, headers, body)
        return answer

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        path, _, query = url.removeprefix("https://relay.example").partition("?")
        request = Request(
            method=method, path=path, query=query, headers=dict(headers), body=body or b""
        )
        answer = await self._http.send(request)
        return Answer(answer.status, answer.headers, answer.body)

    async def close(self) -> None:
        return


class PollingWire:
    """Dials a relay by long poll."""

    def __init__(self, hosts: PollingHosts, *, clock: Clock, tasks: BackgroundTasks) -> None:
        self._hosts = hosts
        self._clock = clock
        self._tasks = tasks
        # The ends of hosts, the oldest first.
        self.ends: list[LongPollSocket] = []
        self.is_down = False
        # What happens to the next requests with a method: `POST`, `GET`.
        self.fates: dict[str, deque[Fate]] = {"POST": deque(), "GET": deque()}
        # Method and URL of each request.
        self.requests: list[tuple[str, str]] = []

    async def dial(self, url: str, token: str) -> LongPollSocket:
        if self.is_down:
            raise DialFailed("the relay is down")
        http = MemoryHttp(self._hosts, self._next)
        end = await dial_long_poll(url, token, http=http, clock=self._clock, tasks=self._tasks)
        self.ends.append(end)
        return end

    def _next(self, method: str, url: str) -> Fate | None:
        self.requests.append((method, url))
        fates = self.fates.get(method)
        return fates.popleft() if fates and "/frames" in url else None

    @property
    def open_ends(self) -> list[LongPollSocket]:
        return [end for end in self.ends if end.closed is None]

    def cut(self) -> None:
        """Lose the connections, and have both sides notice at once."""
        for end in self.open_ends:
            end.drop(WebSocketClosed(ABNORMAL, "cut"))
        for socket in self._hosts.open_sockets:
            socket.drop(Close(ABNORMAL, "cut"))
