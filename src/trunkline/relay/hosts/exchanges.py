"""`Exchange`: a request that came through the relay, served by the application of the host."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from trunkline.protocol.relay import headers
from trunkline.protocol.relay.events import Cancelled, Opened, Piece
from trunkline.protocol.relay.serving_session import ServingSession
from trunkline.relay.carrier import Carrier, OpenStream, StreamCancelled

_log: Final = logging.getLogger("trunkline.relay")

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

# The extension of the scope of a request that delivers a task from the mailbox: its id.
DELIVERY: Final = "a2a.relay.delivery"


class Exchange:
    """One request and its response, as an ASGI application sees them."""

    def __init__(
        self, carrier: Carrier[ServingSession], opened: Opened, *, stream: OpenStream | None = None
    ) -> None:
        """`stream` is that of the request, if it is open already."""
        self._session = carrier.session
        self._carrier = carrier
        self._opened = opened
        self._stream: Final = stream or carrier.stream(opened.stream)
        # The head of the response, which waits for the first piece of the body.
        self._head: Message | None = None
        self._has_begun = False
        self._is_complete = False

    async def serve(self, app: App, credential: bytes = b"") -> None:
        """The application sees the credential as that of the request."""
        if not self._opened.task and self._stream.end is None:
            # It goes with what the application says first, or with the next tick: a message of its
            # own would cost both sides more than the frame.
            self._session.accept(self._opened.stream)
        try:
            await app(self._scope(credential), self._receive, self._send)
        except Exception:  # noqa: BLE001 - logged here; the client learns nothing of it
            _log.exception("a relayed request failed", extra={"agent": self._opened.agent})
            if not self._has_begun:
                # A relay gives a delivery up for good by any other status.
                status = 503 if self._opened.task else 500
                await self._send({"type": "http.response.start", "status": status, "headers": []})
                await self._send({"type": "http.response.body"})
        finally:
            if not self._is_complete:
                self._stream.cancel("failed", "the host did not end its answer")
            self._stream.close()

    def refuse(self, text: str) -> None:
        self._stream.cancel("refused", text)
        self._stream.close()

    def _scope(self, credential: bytes) -> Message:
        path, _, query = self._opened.target.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self._opened.method,
            "scheme": "https",
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": [
                *([(b"authorization", credential)] if credential else ()),
                *headers.received(self._opened.headers),
            ],
            "client": None,
            "server": None,
            "extensions": {DELIVERY: self._opened.task} if self._opened.task else {},
        }

    async def _receive(self) -> Message:
        event = await self._stream.next()
        if isinstance(event, Cancelled):
            return {"type": "http.disconnect"}
        assert isinstance(event, Piece)
        return {"type": "http.request", "body": event.data, "more_body": not event.is_last}

    async def _send(self, message: Message) -> None:
        # Like other servers, which let an application write to a client that has left.
        try:
            if message["type"] == "http.response.start":
                self._head = message
                if not any(name.lower() == b"content-length" for name, _ in message["headers"]):
                    # It is a stream, and its client should see at once that it is open.
                    await self._write(b"", is_last=False)
            else:
                body = message.get("body", b"")
                await self._write(body, is_last=not message.get("more_body", False))
        except StreamCancelled:
            self._is_complete = True

    async def _write(self, data: bytes, *, is_last: bool) -> None:
        if self._head is not None:
            data = await self._begin(self._head, data, is_last=is_last)
            if not data:
                self._is_complete = is_last
                return
        await self._stream.write(data, is_last=is_last)
        self._is_complete = is_last

    async def _begin(self, head: Message, data: bytes, *, is_last: bool) -> bytes:
        """Send the head with the first piece of the body. Returns the rest."""
        room = await self._stream.room()
        first, rest = data[:room], data[room:]
        self._head = None
        if self._opened.task and head["status"] < HTTPStatus.BAD_REQUEST:
            # The relay deletes the message after this, and not before it.
            self._session.accept(self._opened.stream)
        self._session.answer(
            self._opened.stream,
            status=head["status"],
            headers=[
                (name.decode("latin-1").lower(), value.decode("latin-1"))
                for name, value in head["headers"]
            ],
            data=first,
            is_last=is_last and not rest,
        )
        self._has_begun = True
        self._carrier.flush()
        return rest
