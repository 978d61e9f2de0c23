"""`LargeValue`: a text that is stored once, apart from the events that contain it.

An event that held 50 MB would be encoded, committed, folded and answered in one piece each
time, and other callers would wait meanwhile. So the journal holds a short *reference* in
place of a large text, and the store holds the text in slices. The server puts the text back,
slice by slice, where the reference is, when it sends a task to a client.

A reference is ordinary text for everything in between: it can be folded, copied, joined with
other text and converted to another version of the protocol. Only references that the store
knows count, and their ids cannot be guessed, so a caller who writes one gets it back as text.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

# A larger value is written in commits of its own, of this size each.
SLICE_BYTES: Final = 256 * 1024
# UTF-8 needs at most four bytes for a character, so shorter texts are within a slice.
MAX_INLINE_CHARS: Final = SLICE_BYTES // 4

# Letters that no JSON writer escapes, and rare enough that a search for them is fast.
MARK_TEXT: Final = "/+trunkline+value+/+"
MARK: Final = MARK_TEXT.encode()
ID_CHARS: Final = 24
REFERENCE_CHARS: Final = len(MARK) + ID_CHARS
_REFERENCE: Final = re.compile(re.escape(MARK) + rb"([A-Za-z0-9+/]{24})")

_encode = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(str).decode


class LargeValue(Struct, frozen=True, gc=False, eq=False):
    """A text on its way to the store."""

    id: str
    text: str

    @property
    def reference(self) -> str:
        return MARK_TEXT + self.id

    def slices(self) -> Iterator[bytes]:
        """The text as JSON without its quotes, in pieces of SLICE_BYTES; the last piece may be
        shorter. The iterator makes each piece when the caller asks for it."""
        ready = bytearray()
        for start in range(0, len(self.text), MAX_INLINE_CHARS):
            ready += _encode(self.text[start : start + MAX_INLINE_CHARS])[1:-1]
            while len(ready) >= SLICE_BYTES:
                yield bytes(ready[:SLICE_BYTES])
                del ready[:SLICE_BYTES]
        if ready:
            yield bytes(ready)


def value_id(seed: str) -> str:
    """An id that is as hard to guess as its seed."""
    return base64.b64encode(hashlib.blake2b(seed.encode(), digest_size=18).digest()).decode()


def is_large(text: str) -> bool:
    """Whether the text takes more than a slice in UTF-8, or may do so."""
    return len(text) > SLICE_BYTES or (len(text) > MAX_INLINE_CHARS and not text.isascii())


def referred_ids(data: bytes) -> tuple[str, ...]:
    """The ids of all texts that look like a reference, each once, in the order of first
    appearance."""
    return tuple(dict.fromkeys([found.decode() for found in _REFERENCE.findall(data)]))


def split(data: bytes, sizes: Mapping[str, int]) -> list[bytes | str]:
    """JSON with references as the bytes between them (bytes) and the ids of values (str).

    `sizes` has the values that exist; text that looks like another reference stays text.
    """
    pieces: list[bytes | str] = []
    start = 0
    for match in _REFERENCE.finditer(data):
        found = match[1].decode()
        if found in sizes:
            pieces += (data[start : match.start()], found)
            start = match.end()
    pieces.append(data[start:])
    return pieces


def restored(text: str, values: Mapping[str, str]) -> str:
    """Text with its references replaced by what they refer to."""
    first, *rest = text.split(MARK_TEXT)
    pieces = [first]
    for part in rest:
        known = values.get(part[:ID_CHARS])
        pieces += (MARK_TEXT, part) if known is None else (known, part[ID_CHARS:])
    # A text that is one reference needs no copy.
    filled = [piece for piece in pieces if piece]
    return filled[0] if len(filled) == 1 else "".join(filled)


def text_of_slices(slices: list[bytes]) -> str:
    return _decode_text(b"".join((b'"', *slices, b'"')))
