"""`LargeAnswer`: a response in slices, each fetched when the client has read the one before."""

from collections.abc import Sequence

from msgspec import Struct

from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.model.large_values import SLICE_BYTES
from trunkline.ports.store import Scope
from trunkline.runtime.large_values import LargeValues, Pieces
from trunkline.server.http import CONTENT_LENGTH, Disconnected, Header, Response


class LargeAnswer(Struct, frozen=True, eq=False):
    """Resolves references to large values in a response, within the scope of one caller."""

    response: Response
    values: LargeValues
    scope: Scope

    async def answer(
        self,
        status: int,
        *body: bytes,
        content_type: bytes = b"application/json",
        headers: Sequence[Header] = (),
    ) -> None:
        pieces = await self.values.pieces(self.scope, b"".join(body))
        # Before the head is sent, so that the whole response can still be refused.
        self.response.admit(min(pieces.size, SLICE_BYTES))
        own = ((b"content-type", content_type), (CONTENT_LENGTH, b"%d" % pieces.size))
        await self.response.begin(status, (*own, *headers))
        await self._write(pieces)
        await self.response.end()

    async def write(self, data: bytes) -> None:
        """Write a part of a stream."""
        await self._write(await self.values.pieces(self.scope, data))

    async def _write(self, pieces: Pieces) -> None:
        missing = pieces.size
        async for piece in self.values.written_out(pieces):
            if self.response.is_lost:
                # The client has left, so the rest is not fetched.
                return
            try:
                await self.response.write(piece)
            except (TooManyRequests, Unavailable):
                # The memory budget has no room for the rest, and the client already has a part.
                raise Disconnected from None
            missing -= len(piece)
        if missing:
            # The task was deleted meanwhile. The client must not mistake a part for the whole.
            raise Disconnected
