"""`previewed`: JSON with the beginning of each large value in its place.

The journal holds short references in place of texts of more than 256 KB (`model/large_values.py`).
A view that shows many events has the first characters of such a text, and says how long it is.
"""

from typing import Final

import msgspec
from msgspec import Struct

from trunkline.model.large_values import MARK, referred_ids, split
from trunkline.ports.store import Scope, Store
from trunkline.ports.task_views import LargeText

# A multiple of 4: the beginning of a file in base64 is base64, too.
PREVIEW_CHARS: Final = 200
# In JSON a character may take twelve bytes: two escapes of a pair of surrogates.
_ESCAPED_BYTES: Final = 12

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


class Previewed(Struct, frozen=True):
    data: bytes
    # Of the whole JSON.
    size: int
    texts: tuple[LargeText, ...] = ()


async def previewed(store: Store, scope: Scope, data: bytes) -> Previewed:
    """Raises StoreError."""
    if MARK not in data or not store.keeps_large_values:
        return Previewed(data, len(data))
    sizes = await store.value_sizes(scope, referred_ids(data))
    previews: dict[str, str] = {}
    for value in sizes:
        slices = await store.value_slices(value, first=0, limit=1)
        previews[value] = beginning(slices[0] if slices else b"")
    pieces: list[bytes] = []
    size = 0
    for piece in split(data, sizes):
        if isinstance(piece, str):
            pieces.append(_encode(previews[piece])[1:-1])
            size += sizes[piece]
        else:
            pieces.append(piece)
            size += len(piece)
    texts = [LargeText(size=sizes[each], preview=previews[each]) for each in sizes]
    return Previewed(b"".join(pieces), size, tuple(texts))


def beginning(slice_: bytes) -> str:
    """The first characters of a text in JSON, without its quotes."""
    data = slice_[: PREVIEW_CHARS * _ESCAPED_BYTES]
    for cut in range(_ESCAPED_BYTES + 1):
        try:
            return _decode_text(b'"%b"' % data[: len(data) - cut])[:PREVIEW_CHARS]
        except (msgspec.DecodeError, UnicodeDecodeError):
            # It ends within a character or an escape.
            continue
    return ""
