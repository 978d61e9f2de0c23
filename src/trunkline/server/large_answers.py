"""Large answers: as pieces that the client reads before the next one is fetched."""

from collections.abc import Sequence

from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.store import Scope
from trunkline.runtime.large_values import LargeValues, Pieces
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Response


class LargeAnswer:
    """What one caller may see of the large values that an answer refers to."""

    def __init__(self, response: Response, values: LargeValues, scope: Scope) -> None:
        self._response = response
        self._values = values
        self._scope = scope

    async def answer(
        self,
        status: int,
        *body: bytes,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        pieces = await self._values.pieces(self._scope, b"".join(body))
        # Still in time to be refused as a whole.
        self._response.admit(min(pieces.size, SLICE_BYTES))
        own = ((b"content-type", content_type), (CONTENT_LENGTH, b"%d" % pieces.size))
        await self._response.begin(status, (*own, *headers))
        await self._write(pieces)
        await self._response.end()

    async def write(self, data: bytes) -> None:
        """A part of a stream."""
        await self._write(await self._values.pieces(self._scope, data))

    async def _write(self, pieces: Pieces) -> None:
        missing = pieces.size
        async for piece in self._values.written_out(pieces):
            if self._response.is_lost:
                # Nobody reads the rest, so nobody fetches it.
                return
            try:
                await self._response.write(piece)
            except (TooManyRequests, Unavailable):
                # There is no room to keep it for this client, which has a part of it already.
                raise Disconnected from None
            missing -= len(piece)
        if missing:
            # The task was deleted meanwhile. The client must not take what it has for all.
            raise Disconnected
