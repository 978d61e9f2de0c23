"""What backends keep for themselves."""

import asyncio

from trunkline.ports.store import KeptNote, Scope
from trunkline.testing.stores.kit import ALICE, BOB, MakeStore, create, must_put, opened


def note(
    name: str, text: str, *, scope: Scope = ALICE, context_id: str = "c", at_ms: int = 1
) -> KeptNote:
    return KeptNote(scope=scope, context_id=context_id, name=name, text=text, at_ms=at_ms)


async def a_note_is_what_was_kept_last(make: MakeStore) -> None:
    async with opened(make, "notes") as store:
        assert await store.kept(ALICE, "c", "thread") is None
        await store.keep(note("thread", "1"))
        assert await store.kept(ALICE, "c", "thread") == "1"
        await store.keep(note("thread", "2 ✓\n"))
        await store.keep(note("other", "3"))
        assert await store.kept(ALICE, "c", "thread") == "2 ✓\n"
        assert await store.kept(ALICE, "c", "other") == "3"


async def an_empty_note_is_forgotten(make: MakeStore) -> None:
    async with opened(make, "empty-note") as store:
        await store.keep(note("thread", ""))
        await store.keep(note("thread", "1"))
        await store.keep(note("thread", ""))
        assert await store.kept(ALICE, "c", "thread") is None
        assert await store.scopes() == ()
        await store.keep(note("thread", "2"))
        assert await store.kept(ALICE, "c", "thread") == "2"


async def notes_belong_to_a_scope_and_a_context(make: MakeStore) -> None:
    async with opened(make, "notes-apart") as store:
        await store.keep(note("thread", "mine"))
        await store.keep(note("thread", "elsewhere", context_id="other"))
        await store.keep(note("thread", "theirs", scope=BOB))
        assert await store.kept(ALICE, "c", "thread") == "mine"
        assert await store.kept(ALICE, "other", "thread") == "elsewhere"
        assert await store.kept(BOB, "c", "thread") == "theirs"
        assert await store.kept(BOB, "other", "thread") is None
        assert set(await store.scopes()) == {ALICE, BOB}


async def notes_kept_together_take_effect_in_order(make: MakeStore) -> None:
    async with opened(make, "notes-together") as store:
        first, second = note("thread", "1"), note("thread", "2")
        gone, back = note("other", ""), note("other", "back")
        await asyncio.gather(*(store.keep(each) for each in (first, second, back, gone)))
        await must_put(store, create("a"))
        assert await store.kept(ALICE, "c", "thread") == "2"
        assert await store.kept(ALICE, "c", "other") is None


async def old_notes_are_forgotten_in_steps(make: MakeStore) -> None:
    async with opened(make, "old-notes") as store:
        for number in range(5):
            await store.keep(note(f"n{number}", "x", at_ms=number))
        await store.keep(note("theirs", "x", scope=BOB, at_ms=9))
        await store.keep(note("another's", "x", scope=Scope("other", "", "alice"), at_ms=1))
        # What is kept anew is young again.
        await store.keep(note("n0", "y", at_ms=9))
        assert await store.forget_notes("agent", before_ms=1, limit=9) == 0
        assert await store.forget_notes("agent", before_ms=4, limit=2) == 2
        assert await store.forget_notes("agent", before_ms=4, limit=9) == 1
        assert await store.forget_notes("agent", before_ms=4, limit=9) == 0
        left = [await store.kept(ALICE, "c", f"n{number}") for number in range(5)]
        assert left == ["y", None, None, None, "x"]
        assert await store.kept(BOB, "c", "theirs") == "x"
        assert await store.kept(Scope("other", "", "alice"), "c", "another's") == "x"


async def notes_survive_a_restart(make: MakeStore) -> None:
    async with opened(make, "durable-notes") as store:
        await store.keep(note("thread", "1", at_ms=5))
        await store.keep(note("gone", "1"))
        await store.keep(note("old", "1", at_ms=2))
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "thread") == "1"
        await store.keep(note("gone", ""))
        await must_put(store, create("a"))
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "gone") is None
        assert await store.kept(ALICE, "c", "thread") == "1"
        # A file keeps them in the order in which they were kept.
        assert await store.forget_notes("agent", before_ms=6, limit=9) == 2
        await store.keep(note("thread", "2", at_ms=6))
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "thread") == "2"
        assert await store.kept(ALICE, "c", "old") is None
        assert await store.forget_notes("agent", before_ms=9, limit=9) == 1
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "thread") is None


CHECKS = (
    a_note_is_what_was_kept_last,
    an_empty_note_is_forgotten,
    notes_belong_to_a_scope_and_a_context,
    notes_kept_together_take_effect_in_order,
    old_notes_are_forgotten_in_steps,
)
DURABLE_CHECKS = (notes_survive_a_restart,)
