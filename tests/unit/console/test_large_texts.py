"""The beginnings of large texts in the place of references."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from trunkline.console.tasks.large_texts import PREVIEW_CHARS, beginning, previewed
from trunkline.model.events import STATUS, Entry
from trunkline.model.large_values import LargeValue, value_id
from trunkline.ports.store import Scope
from trunkline.stores.memory import MemoryStore
from trunkline.testing.stores.kit import ALICE, BOB, create, must_put, opened

# Characters of one to twelve bytes in JSON.
texts = st.text(st.sampled_from('a"\\\n\x01é€\N{GRINNING FACE}'), min_size=1, max_size=600)


@given(texts, st.integers(1, 4000))
def test_the_beginning_of_a_slice_is_the_beginning_of_the_text(text: str, size: int) -> None:
    """Wherever the slice ends: within a character, an escape or a pair of surrogates."""
    for data in (msgspec.json.encode(text)[1:-1], _ascii(text)):
        found = beginning(data[:size])
        assert text.startswith(found)
        assert len(found) <= PREVIEW_CHARS
        if size >= len(data):
            assert found == text[:PREVIEW_CHARS]


def _ascii(text: str) -> bytes:
    """With an escape in place of everything that is not ASCII."""
    return json.dumps(text).encode()[1:-1]


async def test_previews_stand_where_the_texts_are() -> None:
    large = LargeValue(value_id("a"), 'say "é" \n' * 60_000)
    other = LargeValue(value_id("b"), "b" * 300_000)
    body = msgspec.json.encode([large.reference, "small", other.reference, large.reference])
    whole = msgspec.json.encode([large.text, "small", other.text, large.text])
    async with opened(lambda _: MemoryStore(), "") as store:
        append = structs.replace(
            create("t"), entries=(Entry(1, STATUS, body),), values=(large, other)
        )
        await must_put(store, append)
        found = await previewed(store, ALICE, body)
        first, second = large.text[:PREVIEW_CHARS], other.text[:PREVIEW_CHARS]
        assert msgspec.json.decode(found.data) == [first, "small", second, first]
        assert found.size == len(whole)
        assert [each.preview for each in found.texts] == [first, second]
        # What looks like a reference and is none of the scope stays text.
        for scope in (BOB, Scope("", "", "")):
            assert (await previewed(store, scope, body)).data == body
        made_up = body.replace(large.id.encode(), b"A" * 24)
        assert b"A" * 24 in (await previewed(store, ALICE, made_up)).data
