"""`slim` and `LargeValues`: large texts, replaced by references in the journal and restored for
agents and callers."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct, structs

from trunkline.background import next_pass
from trunkline.model.large_values import (
    MARK_TEXT,
    SLICE_BYTES,
    LargeValue,
    is_large,
    referred_ids,
    restored,
    split,
    text_of_slices,
    value_id,
)
from trunkline.model.values import Artifact, Message, Part
from trunkline.ports.backend import TurnRequest
from trunkline.ports.store import Scope, Store

Parts = tuple[Part, ...]
Item = TypeVar("Item", Message, Artifact)


def slim(
    parts: Parts, known: tuple[LargeValue, ...], new_id: Callable[[], str]
) -> tuple[Parts, tuple[LargeValue, ...]]:
    """The parts with references in place of large texts, and the texts that are not `known`.

    An answer is in an artifact, in a status and in history; it is stored once. Without large
    texts the parts are the same object. Raises UnicodeEncodeError for a text that is not JSON.
    """
    if not any([part.text is not None and is_large(part.text) for part in parts]):
        return parts, ()
    new: list[LargeValue] = []
    slimmed = list(parts)
    for index, part in enumerate(parts):
        if part.text is None or not is_large(part.text):
            continue
        value = next((each for each in (*known, *new) if each.text == part.text), None)
        if value is None:
            if not part.text.isascii():
                part.text.encode()
            value = LargeValue(value_id(new_id()), part.text)
            new.append(value)
        slimmed[index] = structs.replace(part, text=value.reference)
    return tuple(slimmed), tuple(new)


class Pieces(Struct, frozen=True):
    """JSON to send, split at its references to large values."""

    size: int
    # The bytes between values, and the ids of values.
    pieces: Sequence[bytes | str]


class LargeValues(Struct, frozen=True, eq=False):
    """Reads large values from the store."""

    store: Store

    async def pieces(self, scope: Scope, data: bytes) -> Pieces:
        ids = referred_ids(data) if self.store.keeps_large_values else ()
        sizes = await self.store.value_sizes(scope, ids) if ids else {}
        pieces = split(data, sizes) if sizes else [data]
        size = sum(len(each) if isinstance(each, bytes) else sizes[each] for each in pieces)
        return Pieces(size, pieces)

    async def slices(self, value: str) -> AsyncIterator[bytes]:
        """The value in slices. One slice is in memory at a time, and other work runs before the
        next one."""
        number = 0
        while found := await self.store.value_slices(value, first=number, limit=1):
            yield found[0]
            number += 1
            await next_pass()

    async def written_out(self, pieces: Pieces) -> AsyncIterator[bytes]:
        """The JSON with its large values, one slice at a time, with other work in between."""
        for piece in pieces.pieces:
            if isinstance(piece, str):
                async for slice_ in self.slices(piece):
                    yield slice_
            else:
                for start in range(0, len(piece), SLICE_BYTES):
                    yield piece[start : start + SLICE_BYTES]
                    await next_pass()

    async def request(self, scope: Scope, request: TurnRequest) -> TurnRequest:
        """The request with all the texts that it refers to."""
        texts: dict[str, str] = {}
        (message,) = await self.restored(scope, (request.message,), texts)
        history = await self.restored(scope, request.history, texts)
        artifacts = await self.restored(scope, request.artifacts, texts)
        return structs.replace(request, message=message, history=history, artifacts=artifacts)

    async def restored(
        self, scope: Scope, items: Iterable[Item], texts: dict[str, str]
    ) -> tuple[Item, ...]:
        """The items with the texts that they refer to. `texts` are those known so far."""
        return tuple(
            [
                item
                if (parts := await self._parts(scope, item.parts, texts)) is None
                else structs.replace(item, parts=parts)
                for item in items
            ]
        )

    async def _parts(self, scope: Scope, parts: Parts, texts: dict[str, str]) -> Parts | None:
        """The parts with the texts that they refer to; None when they refer to none."""
        referring = [part.text for part in parts if part.text is not None and refers(part.text)]
        if not referring:
            return None
        for text in referring:
            wanted = [each for each in referred_ids(text.encode()) if each not in texts]
            for value in await self.store.value_sizes(scope, wanted):
                texts[value] = text_of_slices([slice_ async for slice_ in self.slices(value)])
        return tuple(
            [
                part
                if part.text is None
                else structs.replace(part, text=restored(part.text, texts))
                for part in parts
            ]
        )


def refers(text: str) -> bool:
    # References are only in short texts: a long text is itself replaced by a reference.
    return len(text) <= SLICE_BYTES and MARK_TEXT in text
