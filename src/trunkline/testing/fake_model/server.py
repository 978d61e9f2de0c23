"""`FakeModel`: the fake model as a server on loopback."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.clock import SystemClock
from trunkline.ports.clock import Clock
from trunkline.testing.fake_model import chat, messages
from trunkline.testing.fake_model.answering import HTML, JSON, Answering, CutOff
from trunkline.testing.fake_model.asked import Asked, read_chat, read_messages, read_responses
from trunkline.testing.fake_model.chat import ChatWriter
from trunkline.testing.fake_model.http import BadRequest, Incoming, Reply, read_request
from trunkline.testing.fake_model.messages import MessagesWriter
from trunkline.testing.fake_model.responses import ResponsesWriter
from trunkline.testing.fake_model.script import Fail, Html
from trunkline.testing.fake_model.writing import Writer, tokens

_FORMS: dict[str, tuple[Callable[[dict[str, Any]], Asked], type[Writer]]] = {
    "/v1/chat/completions": (read_chat, ChatWriter),
    "/v1/responses": (read_responses, ResponsesWriter),
    "/v1/messages": (read_messages, MessagesWriter),
}
_COUNT = "/v1/messages/count_tokens"
_MODELS = ("fake-1", "fake-2")


class SeenRequest(Struct, kw_only=True):
    """One request. `outcome` changes once, from "answering" to the final one."""

    number: int
    method: str
    path: str
    # By their names in lower case.
    headers: dict[str, str]
    body: Any
    # The last user text, without decorations.
    text: str = ""
    outcome: str = "answering"


class FakeModel:
    """Use it with `async with`, or `start` and `close`. The package's docstring has the script."""

    def __init__(self, *, port: int = 0, api_key: str = "", clock: Clock | None = None) -> None:
        self.url = ""
        self.requests: list[SeenRequest] = []
        self._port = port
        self._api_key = api_key
        self._clock = clock or SystemClock()
        self._server: asyncio.Server | None = None
        self._connections = BackgroundTasks("fake model")
        self._failures: Counter[str] = Counter()
        self._watchers: list[tuple[Callable[[SeenRequest], bool], asyncio.Future[SeenRequest]]] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        """Closes all connections, also in the middle of an answer."""
        if self._server is not None:
            self._server.close()
            await self._connections.close()
            await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def until(self, is_it: Callable[[SeenRequest], bool]) -> SeenRequest:
        """The first request of which this is true, now or later."""
        for seen in self.requests:
            if is_it(seen):
                return seen
        found: asyncio.Future[SeenRequest] = asyncio.get_running_loop().create_future()
        self._watchers.append((is_it, found))
        return await found

    def _tell(self, seen: SeenRequest) -> None:
        for is_it, found in self._watchers:
            if not found.done() and is_it(seen):
                found.set_result(seen)
        self._watchers = [item for item in self._watchers if not item[1].done()]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.spawn(self._serve(reader, writer), name="fake model serves")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve_request(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()

    async def _serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reply = Reply(writer)
        try:
            incoming = await read_request(reader, writer)
        except BadRequest as error:
            await reply.whole(400, "text/plain", f"{error}\n".encode())
            return
        if incoming is None:
            return
        if incoming.path in ("/", "/requests", "/v1/models"):
            await self._plain(incoming, reply)
            return
        seen = SeenRequest(
            number=len(self.requests) + 1,
            method=incoming.method,
            path=incoming.path,
            headers=incoming.headers,
            body=_decoded(incoming.body),
        )
        self.requests.append(seen)
        outcome = "closed"
        try:
            # A client that goes away cancels its answer.
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(self._outcome(seen, reply))
                gone = group.create_task(_until_gone(reader))
                gone.add_done_callback(lambda _: answering.cancel())
                answering.add_done_callback(lambda _: gone.cancel())
            if not answering.cancelled():
                outcome = answering.result()
        finally:
            seen.outcome = outcome
            self._tell(seen)

    async def _outcome(self, seen: SeenRequest, reply: Reply) -> str:
        try:
            return await self._answer(seen, reply)
        except CutOff:
            return "cut"
        except ConnectionError:
            return "closed"

    async def _plain(self, incoming: Incoming, reply: Reply) -> None:
        match incoming.method, incoming.path:
            case "GET", "/requests":
                await reply.whole(200, JSON, msgspec.json.encode(self.requests))
            case "DELETE", "/requests":
                self.requests.clear()
                await reply.whole(200, JSON, b"[]")
            case "GET", "/v1/models":
                listed = [{"id": name, "object": "model", "owned_by": "fake"} for name in _MODELS]
                body: Any = {"object": "list", "data": listed}
                status = 200
                if not self._is_let_in(incoming.headers):
                    status, body = 401, chat.error_body(401, "Incorrect API key provided.")
                await reply.whole(status, JSON, msgspec.json.encode(body))
            case _:
                await reply.whole(200, "text/plain", b"")

    def _is_let_in(self, headers: dict[str, str]) -> bool:
        given = (headers.get("authorization", ""), headers.get("x-api-key", ""))
        return (
            not self._api_key or given[0] == f"Bearer {self._api_key}" or given[1] == self._api_key
        )

    async def _answer(self, seen: SeenRequest, reply: Reply) -> str:
        if seen.path == _COUNT and seen.method == "POST":
            await reply.whole(200, JSON, msgspec.json.encode({"input_tokens": tokens(seen.body)}))
            return "answered"
        form = _FORMS.get(seen.path)
        if form is None or seen.method != "POST":
            return await _refuse(seen, reply, 404, f"Unknown request: {seen.method} {seen.path}")
        if not self._is_let_in(seen.headers):
            return await _refuse(seen, reply, 401, "Incorrect API key provided.")
        if not isinstance(seen.body, dict):
            return await _refuse(seen, reply, 400, "The body is not a JSON object.")
        read, writer = form
        asked = read(seen.body)
        seen.text = asked.text
        self._tell(seen)
        if asked.model.startswith("missing"):
            text = f"The model `{asked.model}` does not exist."
            return await _refuse(seen, reply, 404, text)
        return await self._follow(seen, asked, writer(seen.number, seen.body), reply)

    async def _follow(self, seen: SeenRequest, asked: Asked, writer: Writer, reply: Reply) -> str:
        steps = asked.steps()
        match steps[0]:
            case Fail(status, after_s, times) if not times or self._failures[asked.text] < times:
                self._failures[asked.text] += 1
                more = {"Retry-After": after_s} if after_s else {}
                return await _refuse(seen, reply, status, "The script says so.", more)
            case Html():
                await reply.whole(200, "text/html", HTML)
                return "answered"
            case _:
                pass
        answering = Answering(writer, reply, self._clock, is_streamed=asked.is_streamed)
        await answering.play(steps)
        return "answered"


async def _refuse(
    seen: SeenRequest, reply: Reply, status: int, text: str, more: dict[str, str] | None = None
) -> str:
    is_anthropic = seen.path.startswith("/v1/messages")
    body = (messages if is_anthropic else chat).error_body(status, text)
    await reply.whole(status, JSON, msgspec.json.encode(body), more)
    return "refused"


async def _until_gone(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        _ = await reader.read(1)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode(errors="replace")
