"""Checks of records: versions, groups, counts, pages, due times and leases."""

import asyncio

from msgspec import structs

from trunkline.background import next_pass
from trunkline.model.errors import LimitReached, RecordConflict, StaleSeq, Unstorable
from trunkline.ports.records import Add, Change, Committed, Defer, Delete, Group, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.testing.stores.kit import (
    COMPLETED,
    MakeStore,
    assert_refused,
    change,
    create,
    follow,
    key,
    must_change,
    must_get,
    must_have,
    must_put,
    opened,
    put,
    with_groups,
)


async def a_record_comes_back_as_it_was_put(store: Store) -> None:
    body = bytes(range(256))
    assert await store.record(key("a")) is None
    await must_change(store, Put(key=key("a"), body=body, tags=("one", "two ✓")))
    found = await must_have(store, key("a"))
    assert found == Record(key=key("a"), version=1, body=body, tags=("one", "two ✓"))
    await must_change(store, Put(key=key("a"), body=b""))
    assert await must_have(store, key("a")) == Record(key=key("a"), version=2, body=b"")
    for other in (key("b"), key("a", scope="other"), key("a", kind="other.1")):
        assert await store.record(other) is None


async def a_change_goes_by_the_version_that_it_expects(store: Store) -> None:
    await must_change(store, Put(key=key("a"), body=b"1", expected=0))
    assert_refused(await change(store, Put(key=key("a"), body=b"x", expected=0)), RecordConflict)
    assert_refused(await change(store, Put(key=key("a"), body=b"x", expected=2)), RecordConflict)
    await must_change(store, Put(key=key("a"), body=b"2", expected=1))
    assert_refused(await change(store, Delete(key=key("a"), expected=1)), RecordConflict)
    found = await must_have(store, key("a"))
    assert (found.version, found.body) == (2, b"2")
    await must_change(store, Delete(key=key("a"), expected=2))
    assert await store.record(key("a")) is None
    assert_refused(await change(store, Delete(key=key("a"), expected=2)), RecordConflict)
    assert_refused(await change(store, Put(key=key("a"), expected=1)), RecordConflict)
    await must_change(store, Delete(key=key("a")))
    await must_change(store, Put(key=key("a"), body=b"3", expected=0))


async def a_new_record_is_not_read_as_the_deleted_one(store: Store) -> None:
    """A store may find a record faster that it has read before."""
    await must_change(store, Put(key=key("a"), body=b"1"))
    assert (await must_have(store, key("a"))).body == b"1"
    await must_change(store, Delete(key=key("a")))
    await must_change(store, Put(key=key("b"), body=b"2"))
    assert await store.record(key("a")) is None
    await must_change(store, Put(key=key("a"), body=b"3"))
    assert (await must_have(store, key("a"))).body == b"3"
    assert (await must_have(store, key("b"))).body == b"2"


async def of_two_that_expect_no_record_one_wins(store: Store) -> None:
    """Also when both are in one commit."""
    puts = [Put(key=key("a"), body=b"%d" % number, expected=0) for number in (1, 2)]
    results = await asyncio.gather(*[change(store, put) for put in puts])
    assert results[0] is None
    assert_refused(results[1], RecordConflict)
    assert (await must_have(store, key("a"))).body == b"1"


async def a_group_is_committed_whole_or_not_at_all(store: Store) -> None:
    await must_change(store, Put(key=key("a"), body=b"1"), Add(key=key("n"), amount=3, at_most=5))
    refused = await change(
        store,
        Put(key=key("a"), body=b"2"),
        Put(key=key("b"), body=b"2", tags=("tag",), expected=0),
        Delete(key=key("c")),
        Add(key=key("n"), amount=3, at_most=5),
    )
    assert_refused(refused, LimitReached)
    assert (await must_have(store, key("a"))).body == b"1"
    assert await store.record(key("b")) is None
    assert await store.records("check.1", tag="tag", limit=9) == ()
    assert (await must_have(store, key("n"))).count == 3


async def many_changes_of_a_group_go_by_what_is_there(store: Store) -> None:
    names = [f"{number:03d}" for number in range(40)]
    await must_change(store, *[Put(key=key(name), body=b"1", expected=0) for name in names])
    # With a tag, with a due time, in another scope, and with a name that is not plain.
    odd: list[Put] = [
        Put(key=key("tagged"), tags=("tag",), expected=0),
        Put(key=key("due"), due_in_ms=0, expected=0),
        Put(key=key("000", scope="other"), body=b"other", expected=0),
        Put(key=key('q"\\ ✓'), expected=0),
    ]
    await must_change(store, *odd)
    deletes = [Delete(key=key(name), expected=1) for name in names[:30]]
    stale = [*deletes[:-1], Delete(key=key(names[29]), expected=2)]
    assert_refused(await change(store, *stale), RecordConflict)
    assert len(await store.records("check.1", scope="scope", limit=99)) == 43
    gone: list[Change] = [
        Delete(key=put.key, expected=1) for put in odd if put.key.scope == "scope"
    ]
    new = [Put(key=key(name), body=b"2", expected=1) for name in names[30:]]
    none: list[Change] = [
        Delete(key=key("none")),
        Delete(key=key("new")),
        Put(key=key("made"), expected=0),
    ]
    await must_change(store, *deletes, *gone, *new, *none)
    left = await store.records("check.1", scope="scope", limit=99)
    assert [(record.key.id, record.body) for record in left] == [
        *[(name, b"2") for name in names[30:]],
        ("made", b""),
    ]
    assert await store.records("check.1", tag="tag", limit=9) == ()
    assert await store.claim_due({"check.1": 9}, lease_ms=1000) == ()
    assert (await must_have(store, key("000", scope="other"))).body == b"other"


async def a_count_rises_up_to_its_limit(store: Store) -> None:
    for _ in range(5):
        await must_change(store, Add(key=key("n"), amount=2, at_most=10))
    assert_refused(await change(store, Add(key=key("n"), amount=1, at_most=10)), LimitReached)
    await must_change(store, Add(key=key("n"), amount=1, at_most=11))
    found = await must_have(store, key("n"))
    assert (found.count, found.version) == (11, 6)
    assert_refused(await change(store, Add(key=key("m"), amount=2, at_most=1)), LimitReached)
    assert await store.record(key("m")) is None
    # Many in one commit count like many commits.
    add = Add(key=key("o"), amount=1, at_most=7)
    results = await asyncio.gather(*[change(store, add) for _ in range(10)])
    assert [result is None for result in results] == [True] * 7 + [False] * 3


async def changes_of_one_commit_follow_on_each_other(store: Store) -> None:
    """A store may write what many changes do to a record once; nobody can tell."""
    add = Add(key=key("n"), amount=2, at_most=7)
    new = Put(key=key("new"), body=b"new", expected=0)
    changes: list[tuple[Change, ...]] = [
        (add, Put(key=key("a"), expected=0)),
        (add,),
        (Put(key=key("n"), expected=0),),
        (new, Add(key=key("m"), amount=1, at_most=1)),
        (Add(key=key("new"), amount=1, at_most=9),),
        # Refused as a whole: the second count has no room.
        (add, Add(key=key("m"), amount=1, at_most=1)),
        (Add(key=key("n"), amount=-1, at_most=7), new),
        (add,),
        (add,),
        (Delete(key=key("m")),),
        (Add(key=key("m"), amount=1, at_most=1),),
        (Put(key=key("n"), body=b"text", expected=3),),
        (add,),
        (Add(key=key("n"), amount=1, at_most=7),),
    ]
    results = await asyncio.gather(*[change(store, *each) for each in changes])
    kinds = [None if result is None else type(result) for result in results]
    assert kinds == [
        *(None, None, RecordConflict, None, None, LimitReached, RecordConflict, None),
        *(LimitReached, None, None, None, LimitReached, None),
    ]
    n, m = await must_have(store, key("n")), await must_have(store, key("m"))
    assert (n.count, n.version, n.body) == (7, 5, b"text")
    assert (m.count, m.version) == (1, 1)
    made = await must_have(store, key("new"))
    assert (made.count, made.version, made.body) == (1, 2, b"new")


async def a_group_is_refused_for_its_first_change_that_cannot_be_made(store: Store) -> None:
    there, full = key("there"), Add(key=key("full"), amount=1, at_most=1)
    await must_change(store, Put(key=there), full)
    new = Put(key=there, expected=0)
    results = await asyncio.gather(change(store, new, full), change(store, full, new))
    assert [type(result) for result in results] == [RecordConflict, LimitReached]


async def a_refusal_names_the_record(store: Store) -> None:
    for refused in (
        await change(store, Put(key=key("the id"), expected=4)),
        await change(store, Add(key=key("the id"), amount=2, at_most=1)),
    ):
        assert refused is not None
        assert "check.1" in refused.message
        assert "the id" in refused.message


async def a_change_that_cannot_be_stored_is_refused_alone(store: Store) -> None:
    """Also one in the same commit as others."""
    half_a_pair = "\ud800"
    unstorable: list[Change] = [
        Put(key=key(half_a_pair)),
        Put(key=key("a"), tags=("fine", half_a_pair)),
        Put(key=key("a"), due_in_ms=1 << 70),
        Add(key=key("a"), amount=1, at_most=1 << 70),
        Add(key=key("a"), amount=-(1 << 70), at_most=1),
        Defer(key=key("a"), in_ms=1 << 70, expected=0),
    ]
    for number, bad in enumerate(unstorable):
        good = Group((Put(key=key("good"), expected=number),))
        results = await put(
            store,
            with_groups(create(f"bad{number}"), Group((bad,))),
            with_groups(create(f"good{number}"), good),
        )
        assert_refused(results[0], Unstorable)
        assert results[1] is None
        assert_refused(await change(store, bad), Unstorable)
    assert await store.record(key("a")) is None


async def a_required_group_refuses_its_append_and_no_other(store: Store) -> None:
    taken = Put(key=key("a"), expected=0)
    await must_change(store, taken)
    results = await put(
        store,
        create("one"),
        with_groups(create("two"), Group((Put(key=key("b")),)), Group((taken,))),
        with_groups(create("three"), Group((Put(key=key("c"), expected=0),))),
    )
    assert (results[0], results[2]) == (None, None)
    assert_refused(results[1], RecordConflict)
    assert await store.owner("two") is None
    assert await store.record(key("b")) is None
    await must_have(store, key("c"))
    # What was refused can be tried again.
    await must_put(store, create("two"))


async def an_optional_group_never_stops_its_append(store: Store) -> None:
    await must_put(store, create("task"))
    groups = (
        Group((Put(key=key("a"), expected=9), Put(key=key("b"))), is_required=False),
        Group((Put(key=key("c")),), is_required=False),
        Group((Add(key=key("n"), amount=2, at_most=1),), is_required=False),
        Group((Put(key=key("d"), expected=0),)),
    )
    append = follow("task", 1, state=COMPLETED)
    assert await put(store, with_groups(append, *groups)) == [Committed((0, 2))]
    assert (await must_get(store, "task")).state is COMPLETED
    found = [await store.record(key(name)) is not None for name in "abcdn"]
    assert found == [False, False, True, True, False]


async def an_append_that_is_refused_leaves_its_records_alone(store: Store) -> None:
    await must_put(store, create("task"))
    stale = with_groups(follow("task", 7), Group((Put(key=key("a")),)))
    (result,) = await put(store, stale)
    assert_refused(result, StaleSeq)
    assert await store.record(key("a")) is None


async def records_of_a_task_go_with_it(store: Store) -> None:
    mine = Put(key=key("mine"), tags=("tag",), due_in_ms=0, goes_with_task=True)
    other = Put(key=key("other"), tags=("tag",))
    await must_put(store, with_groups(create("task", state=COMPLETED), Group((mine, other))))
    await must_put(store, with_groups(create("more"), Group((Put(key=key("x")),))))
    assert await store.prune("agent", limit=9) == 1
    assert await store.record(key("mine")) is None
    assert await store.claim_due({"check.1": 9}, lease_ms=9) == ()
    found = await store.records("check.1", tag="tag", limit=9)
    assert [record.key.id for record in found] == ["other"]
    await must_change(store, Put(key=key("mine"), expected=0))


async def pages_go_through_all_records_in_order(store: Store) -> None:
    every = [
        Put(key=key(f"r{number}", scope=scope), tags=("odd", "any") if number % 2 else ("any",))
        for scope in ("s1", "s2")
        for number in range(5)
    ]
    for each in reversed(every):
        await must_change(store, each)
    await must_change(store, Put(key=key("r0", kind="other.1", scope="s1"), tags=("any",)))
    for scope in (None, "s1", "s2", "s3"):
        for tag in (None, "any", "odd", "none"):
            wanted = [
                each.key
                for each in every
                if scope in (None, each.key.scope) and (tag is None or tag in each.tags)
            ]
            assert await _paged(store, scope, tag, newest_first=False) == wanted
            assert await _paged(store, scope, tag, newest_first=True) == wanted[::-1]


async def _paged(
    store: Store, scope: str | None, tag: str | None, *, newest_first: bool
) -> list[Key]:
    found: list[Key] = []
    while True:
        page = await store.records(
            "check.1",
            scope=scope,
            tag=tag,
            after=found[-1] if found else None,
            newest_first=newest_first,
            limit=3,
        )
        found += [record.key for record in page]
        if len(page) < 3:
            return found


async def a_record_is_due_from_its_time_on(store: Store) -> None:
    await must_change(
        store,
        Put(key=key("now"), body=b"body", tags=("tag",), due_in_ms=0),
        Put(key=key("later", scope="other"), due_in_ms=3_600_000),
        Put(key=key("never", scope="third")),
    )
    assert await store.claim_due({"other.1": 9}, lease_ms=1000) == ()
    (claimed,) = await store.claim_due({"other.1": 9, "check.1": 9}, lease_ms=1000)
    assert (claimed.key, claimed.body, claimed.tags) == (key("now"), b"body", ("tag",))
    assert (claimed.version, claimed.attempts) == (2, 1)
    assert await store.record(key("now")) == structs.replace(claimed, claimed_ms=0)
    later = await must_have(store, key("later", scope="other"))
    assert later.due_ms is not None
    assert claimed.due_ms is not None
    assert abs(later.due_ms - claimed.due_ms - 3_600_000) < 60_000
    # By the clock that the due time is by.
    assert 0 <= claimed.claimed_ms - claimed.due_ms < 60_000


async def a_claim_holds_its_scope_until_the_record_changes(store: Store) -> None:
    for name in ("a", "b"):
        await must_change(store, Put(key=key(name), due_in_ms=0))
    await must_change(store, Put(key=key("c", scope="other"), due_in_ms=0))
    assert sorted(await _claim(store)) == ["a", "c"]
    assert await _claim(store) == []
    # Another record of the scope changes nothing of that.
    await must_change(store, Put(key=key("b"), due_in_ms=0), Put(key=key("d"), due_in_ms=0))
    assert await _claim(store) == []
    held = await must_have(store, key("a"))
    await must_change(store, Delete(key=key("a"), expected=held.version))
    assert await _claim(store) == ["b"]
    # A put ends the claim like a deletion, and may make the record due again.
    await must_change(store, Put(key=key("c", scope="other"), due_in_ms=0))
    assert await _claim(store) == ["c"]
    await must_change(store, Put(key=key("b")))
    assert await _claim(store) == ["d"]


async def _claim(store: Store, *, lease_ms: int = 60_000, limit: int = 9) -> list[str]:
    claimed = await store.claim_due({"check.1": limit}, lease_ms=lease_ms)
    return [record.key.id for record in claimed]


async def a_lease_that_ends_lets_the_next_claim_in_and_the_former_out(store: Store) -> None:
    await must_change(store, Put(key=key("a"), due_in_ms=0))
    (first,) = await store.claim_due({"check.1": 9}, lease_ms=0)
    second = await _claim_again(store)
    assert (second.version, second.attempts) == (first.version + 1, 2)
    late = await change(store, Delete(key=key("a"), expected=first.version))
    assert_refused(late, RecordConflict)
    await must_change(store, Put(key=key("a"), due_in_ms=0, expected=second.version))
    (third,) = await store.claim_due({"check.1": 9}, lease_ms=0)
    assert third.attempts == 1


async def a_deferred_record_keeps_its_place(store: Store) -> None:
    for name in ("a", "b"):
        await must_change(store, Put(key=key(name), body=b"body", due_in_ms=0))
    (first,) = await store.claim_due({"check.1": 9}, lease_ms=60_000)
    late = Defer(key=key("a"), in_ms=0, expected=first.version - 1)
    assert_refused(await change(store, late), RecordConflict)
    await must_change(store, Defer(key=key("a"), in_ms=0, expected=first.version))
    again = await _claim_again(store)
    assert (again.key, again.body, again.attempts) == (key("a"), b"body", 2)
    await must_change(store, Defer(key=key("a"), in_ms=60_000, expected=again.version))
    assert await _claim(store) == []


async def only_a_claim_can_be_deferred(store: Store) -> None:
    """Neither does another record take over the scope, nor one that waits for nothing."""
    for name in ("a", "b"):
        await must_change(store, Put(key=key(name), due_in_ms=0))
    await must_change(store, Put(key=key("c")))
    assert await _claim(store) == ["a"]
    for name in ("b", "c"):
        await must_change(store, Defer(key=key(name), in_ms=60_000, expected=1))
    assert await _claim(store) == []
    await must_change(store, Delete(key=key("a")))
    assert await _claim(store) == ["b"]


async def _claim_again(store: Store) -> Record:
    """A lease of no time ends with the millisecond."""
    while True:
        for record in await store.claim_due({"check.1": 9}, lease_ms=60_000):
            return record
        await next_pass()


async def scopes_take_turns(store: Store) -> None:
    """The long queue of one scope delays the others by one record at most."""
    for number in range(20):
        await must_change(store, Put(key=key(f"{number:02}", scope="long"), due_in_ms=0))
    for name in ("a", "b"):
        await must_change(store, Put(key=key(name, scope=name), due_in_ms=0))
    order = []
    for _ in range(5):
        (record,) = await store.claim_due({"check.1": 1}, lease_ms=60_000)
        order.append(record.key.id)
        await must_change(store, Delete(key=record.key, expected=record.version))
    assert sorted(order[:3]) == ["00", "a", "b"]
    assert order[3:] == ["01", "02"]


async def a_claim_takes_a_share_of_every_kind(store: Store) -> None:
    for number in range(20):
        await must_change(store, Put(key=key("r", scope=f"{number:02}"), due_in_ms=0))
    await must_change(store, Put(key=key("r", kind="other.1"), due_in_ms=0))
    claimed = await store.claim_due({"check.1": 3, "other.1": 3}, lease_ms=60_000)
    kinds = [record.key.kind for record in claimed]
    assert sorted(kinds) == ["check.1"] * 3 + ["other.1"]


async def records_outlive_the_store(make: MakeStore) -> None:
    async with opened(make, "records") as store:
        await must_change(
            store,
            Put(key=key("a"), body=b"\x00\xff", tags=("tag",)),
            Put(key=key("due"), due_in_ms=0),
            Put(key=key("gone")),
            Add(key=key("n"), amount=3, at_most=9),
        )
        await must_change(store, Put(key=key("a"), body=b"\xff\x00", tags=("tag",)))
        await must_change(store, Delete(key=key("gone")))
        mine = Put(key=key("mine"), goes_with_task=True)
        await must_put(store, with_groups(create("task", state=COMPLETED), Group((mine,))))
        assert await _claim(store) == ["due"]
    async with opened(make, "records") as store:
        found = Record(key=key("a"), version=2, body=b"\xff\x00", tags=("tag",))
        assert await store.record(key("a")) == found
        assert await store.records("check.1", tag="tag", limit=9) == (found,)
        assert (await must_have(store, key("n"))).count == 3
        assert await store.record(key("gone")) is None
        due = await must_have(store, key("due"))
        assert due.due_ms is not None
        await must_change(store, Put(key=key("due"), due_in_ms=0))
        assert await _claim(store) == ["due"]
        assert await store.prune("agent", limit=9) == 1
        assert await store.record(key("mine")) is None
