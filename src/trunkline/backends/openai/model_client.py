"""`ModelClient`: one request to the server of the model, and the answer as it arrives."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from trunkline.backends.openai import failures
from trunkline.backends.openai.answer import Answer, TooLarge
from trunkline.backends.openai.failures import ModelFailure
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.openai.wire import (
    Garbage,
    ReportedError,
    error_code,
    read_chunk,
    request_body,
)
from trunkline.clock import chance
from trunkline.model.errors import InvalidAgentResponse
from trunkline.ports.clock import Clock
from trunkline.ports.tools import TurnTool
from trunkline.ports.wire_log import ClientTap
from trunkline.protocol.sse import Parser
from trunkline.remote.errors import RemoteError
from trunkline.remote.http import Guard, HttpClient, Response, build_request
from trunkline.remote.retries import delay_s, retry_after_s
from trunkline.remote.target import Limits

_JSON: Final = "application/json"
_DONE: Final = b"[DONE]"
# The client reads this much of an error.
_ERROR_BYTES: Final = 64 * 1024
# Allowance for the JSON around the text of an answer.
_FRAME_BYTES: Final = 64 * 1024
# After `[DONE]`, the client waits this long for the end of the response.
_END_S: Final = 1.0


class ModelClient:
    def __init__(
        self,
        settings: OpenAIBackend,
        tools: Sequence[TurnTool],
        clock: Clock,
        *,
        allow_private: bool = False,
        tap: ClientTap | None = None,
    ) -> None:
        self.settings = settings
        self.tools = tools
        self._http = HttpClient(
            Guard.of(
                settings.base_url, allow_private=allow_private, public_only=settings.public_only
            ),
            tap=tap,
        )
        self._clock = clock
        self._limits = Limits(connect_s=settings.connect_s, idle_s=settings.idle_s)

    async def close(self) -> None:
        for tool in self.tools:
            await tool.close()
        await self._http.close()

    async def ask(
        self, messages: list[dict[str, Any]], answer: Answer
    ) -> AsyncGenerator[str, None]:
        """Pieces of text, as they come; `answer` has all of it. Raises ModelFailure.

        A caller that closes it before its end closes the connection.
        """
        body = request_body(self.settings, self.tools, messages)
        opened = await self._open(body)
        try:
            async with aclosing(self._pieces(opened, answer)) as pieces:
                async for piece in pieces:
                    yield piece
        except RemoteError as error:
            if error.reason == "TOO_LARGE":
                raise failures.too_large(self.settings.max_answer_bytes) from None
            raise failures.of_remote(error, has_begun=True) from None
        except (Garbage, InvalidAgentResponse):
            raise failures.garbage() from None
        except ReportedError as error:
            raise failures.reported(str(error)) from None
        except TooLarge:
            raise failures.too_large(self.settings.max_answer_bytes) from None
        finally:
            opened.close()

    async def _open(self, body: bytes) -> Response:
        """The head of the answer, after as many attempts as needed and allowed."""
        attempt = 0
        while True:
            try:
                return await self._attempt(body)
            except ModelFailure as failure:
                attempt += 1
                if not failure.may_retry or attempt >= self.settings.attempts:
                    raise
                pause_s = failure.retry_after_s
                if pause_s is None:
                    pause_s = delay_s(attempt - 1, chance())
            await self._clock.sleep(pause_s)

    async def _attempt(self, body: bytes) -> Response:
        accept = "text/event-stream, application/json" if self.settings.stream else _JSON
        headers = {"Content-Type": _JSON, "Accept": accept, **self.settings.request_headers()}
        try:
            request = build_request("POST", self.settings.url("chat/completions"), headers, body)
            opened = await self._http.open(request, self._limits, within_s=self.settings.total_s)
        except RemoteError as error:
            raise failures.of_remote(error, has_begun=False) from None
        if 200 <= opened.status < 300 and opened.media_type != "text/html":
            return opened
        try:
            raise await self._refusal(opened)
        finally:
            opened.close()

    async def _refusal(self, opened: Response) -> ModelFailure:
        if 200 <= opened.status < 300:
            return failures.garbage("it answers with a page of HTML")
        try:
            code, text = error_code(await opened.body(_ERROR_BYTES))
        except RemoteError as error:
            code, text = "", error.message
        after_s = retry_after_s(opened.headers.get("retry-after"), self._clock.now_ms())
        return failures.of_status(opened.status, code, text, retry_after_s=after_s)

    async def _pieces(self, opened: Response, answer: Answer) -> AsyncGenerator[str, None]:
        max_bytes = self.settings.max_answer_bytes + _FRAME_BYTES
        if opened.media_type == _JSON:
            # Also where a stream was requested: not every server streams.
            chunk = read_chunk(await opened.body(max_bytes))
            if not chunk.choices:
                raise Garbage
            if text := answer.feed(chunk) + answer.end():
                yield text
            return
        parser = Parser(max_event_bytes=max_bytes)
        async for data in _events(opened, parser):
            if text := answer.feed(read_chunk(data)):
                yield text
        if not answer.is_complete:
            raise failures.broke_off()
        if text := answer.end():
            yield text


async def _events(opened: Response, parser: Parser) -> AsyncGenerator[bytes, None]:
    while chunk := await opened.chunk():
        for event in parser.feed(chunk):
            if event.data.strip() == _DONE:
                # Read to the end, so that the connection can be used again.
                opened.end_within(_END_S)
                with suppress(RemoteError):
                    while await opened.chunk():
                        pass
                return
            # Some servers send empty events to keep the connection alive.
            if event.data.strip():
                yield event.data
