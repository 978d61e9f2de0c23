"""`Answering`: carries out the steps of an answer, in the form that the client wants."""

import asyncio

import msgspec

from trunkline.ports.clock import Clock
from trunkline.testing.fake_model.http import Reply
from trunkline.testing.fake_model.script import (
    CallTool,
    Cut,
    End,
    Endless,
    Fail,
    Flood,
    Garbage,
    Hang,
    Report,
    Say,
    Step,
    Think,
)
from trunkline.testing.fake_model.writing import Writer

SSE = "text/event-stream"
JSON = "application/json"
HTML = b"<!doctype html><title>It works!</title><p>This is not the API you are looking for."
_FLOOD_PIECE = "flood " * 512


class CutOff(Exception):
    """The script says that the connection ends here."""


class Answering:
    def __init__(self, writer: Writer, reply: Reply, clock: Clock, *, is_streamed: bool) -> None:
        self._writer = writer
        self._reply = reply
        self._clock = clock
        self._is_streamed = is_streamed

    async def play(self, steps: tuple[Step, ...]) -> None:
        """Raises CutOff where the script wants the connection cut."""
        if self._is_streamed:
            self._reply.begin(SSE)
            await self._reply.piece(self._writer.begin())
        reason = "stop"
        for step in steps:
            if isinstance(step, End):
                reason = step.reason
                break
            if not await self._do(step):
                return
            if isinstance(step, CallTool):
                reason = "tools"
        if self._is_streamed:
            await self._reply.piece(self._writer.end(reason))
            await self._reply.end()
        else:
            await self._reply.whole(200, JSON, self._writer.entire(reason))

    async def _do(self, step: Step) -> bool:
        """Whether the answer goes on after the step."""
        match step:
            case Say(pieces, every_s):
                for piece in pieces:
                    if every_s:
                        await self._clock.sleep(every_s)
                    await self._say(piece)
            case Think(text):
                self._writer.thought += text
                await self._send(self._writer.think(text))
            case CallTool():
                self._writer.calls.append(step)
                await self._send(self._writer.call(step))
            case Endless(every_s):
                while True:
                    # `sleep(0)` lets other tasks run.
                    await self._clock.sleep(every_s)
                    await self._say("more ")
            case Flood(size_bytes):
                for _ in range(-(-size_bytes // len(_FLOOD_PIECE))):
                    await self._say(_FLOOD_PIECE)
            case _:
                return await self._go_wrong(step)
        return True

    async def _go_wrong(self, step: Step) -> bool:
        match step:
            case Fail():
                # The request has failed as often as the script says.
                await self._say("recovered")
            case Hang():
                _ = await asyncio.get_running_loop().create_future()
            case Cut():
                if not self._is_streamed:
                    self._reply.begin(JSON)
                    await self._reply.piece(b'{"id": "cut')
                raise CutOff
            case Garbage() if self._is_streamed:
                await self._reply.piece(b"data: {not json\n\ndata: 42\n\n")
            case Report(text) if self._is_streamed:
                await self._reply.piece(self._writer.error(text))
                await self._reply.end()
                return False
            case Garbage():
                await self._reply.whole(200, JSON, b"{not json")
                return False
            case Report(text):
                body = msgspec.json.encode({"error": {"message": text, "type": "server_error"}})
                await self._reply.whole(200, JSON, body)
                return False
            case _:
                pass  # The server acts on these as the first step alone.
        return True

    async def _say(self, piece: str) -> None:
        self._writer.text += piece
        await self._send(self._writer.say(piece))

    async def _send(self, data: bytes) -> None:
        if self._is_streamed:
            await self._reply.piece(data)
