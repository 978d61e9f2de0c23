"""The rows of the audit and their verification over HTTP."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.hub.audit_world import audited
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.hub.audit_chain import HEAD, SEGMENT, begun, closed_at, extended, put_head
from trunkline.hub.audit_pages import MAX_READ, AuditPages
from trunkline.hub.audit_rows import Row, encode_row
from trunkline.ports.records import Key, Put
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock


async def page(world: HubWorld, **query: Any) -> dict[str, Any]:
    answer = await world.call("GET", "/audit", query=urlencode(query))
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json()
    return found


async def verification(world: HubWorld) -> dict[str, Any]:
    answer = await world.call("POST", "/audit/verify")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json()
    return found


async def test_operators_read_the_rows_of_what_has_just_happened_the_newest_first() -> None:
    async with hub_world() as world:
        await world.create()
        await world.clock.advance(1)
        await world.send("acme/echo", by="carol")
        rows = (await page(world))["items"]
        assert [(row["kind"], row.get("outcome")) for row in rows] == [
            ("outcome", "ok"),
            ("attempt", None),
            ("change", None),
        ]
        assert [row["number"] for row in rows] == [3, 2, 1]
        attempt = rows[1]
        assert (attempt["who"], attempt["agent"]) == ("user:carol", "acme/echo")
        assert attempt["operation"] == "SendMessage"
        assert len(attempt["hash"]) == 64


async def test_nobody_but_operators_reads_or_verifies_the_audit() -> None:
    async with hub_world() as world:
        await world.create()
        for by, status in (("acme", 403), ("carol", 403), ("", 401)):
            assert (await world.call("GET", "/audit", by=by)).status == status
            assert (await world.call("POST", "/audit/verify", by=by)).status == status


async def test_filters_find_rows_and_refuse_what_they_do_not_know() -> None:
    async with hub_world() as world:
        await world.create()
        await world.create(slug="other")
        await world.send("acme/echo", by="carol")
        await world.send("acme/other", by="dave")
        for query, expected in (
            ({"agent": "acme/echo"}, {"acme/echo"}),
            ({"who": "user:dave"}, {"acme/other"}),
            ({"kind": "attempt", "q": "CAROL"}, {"acme/echo"}),
        ):
            rows = (await page(world, **query))["items"]
            assert rows
            assert {row["agent"] for row in rows} == expected
        (row,) = (await page(world, kind="change", q="acme/other"))["items"]
        assert row["action"] == "create_agent"
        assert (await page(world, q="no such text"))["items"] == []
        assert (await page(world, since="2031-01-01T00:00:00Z"))["items"] == []
        for wrong in (
            "kind=x",
            "since=yesterday",
            "pageToken=x",
            "pageSize=201",
            "pageToken=bnVsbA",
        ):
            assert (await world.call("GET", "/audit", query=wrong)).status == 400


async def test_pages_give_every_row_once_while_others_come() -> None:
    async with hub_world() as world:
        await world.create()
        for _ in range(5):
            await world.send("acme/echo", by="carol")
            await world.clock.advance(1)
        everything = (await page(world))["items"]
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            part = await page(world, pageSize=3, pageToken=token)
            found += part["items"]
            token = part["nextPageToken"]
            if not token:
                break
            await world.send("acme/echo", by="carol")
        assert found == everything


async def test_the_rows_of_several_chains_are_merged_by_their_times() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()

    async def chain(name: str, *times: int, closed_ms: int = 0) -> None:
        rows = [encode_row(Row(kind="attempt", at_ms=at, id=f"{name}{at}")) for at in times]
        head, segments = extended(begun(name, before="", now_ms=1), rows)
        if closed_ms:
            head = closed_at(head, closed_ms)
        await store.change(put_head(head, expected=0), *segments)

    await chain("first", 10, 20, 30, closed_ms=31)
    await chain("left", 35, 40, closed_ms=60)
    await chain("right", 37, 50)
    pages = AuditPages(store)
    for limit in (1, 2, 3, 100):
        found: list[int] = []
        token = ""
        while True:
            part = await pages.page(lambda _: True, limit=limit, token=token)
            found += [line.at_ms for _, line in part.rows]
            token = part.token
            if not token:
                break
        assert found == [50, 40, 37, 35, 30, 20, 10]
    since = await pages.page(lambda _: True, limit=9, since_ms=36)
    assert [line.at_ms for _, line in since.rows] == [50, 40, 37]


async def test_old_rows_that_a_node_took_over_hide_no_newer_ones() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    rows = [encode_row(Row(kind="attempt", at_ms=at)) for at in (100, 110, 50)]
    head, segments = extended(begun("one", before="", now_ms=1), rows)
    await store.change(put_head(head, expected=0), *segments)
    rows = [encode_row(Row(kind="attempt", at_ms=at)) for at in (60, 105)]
    head, segments = extended(begun("two", before="one", now_ms=2), rows)
    await store.change(put_head(head, expected=0), *segments)
    found = await AuditPages(store).page(lambda _: True, limit=9)
    assert [line.at_ms for _, line in found.rows] == [50, 110, 105, 100, 60]
    since = await AuditPages(store).page(lambda _: True, limit=9, since_ms=90)
    assert [line.at_ms for _, line in since.rows] == [110, 105, 100]


async def test_one_request_reads_a_bounded_number_of_rows() -> None:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    rows = [encode_row(Row(kind="attempt", at_ms=at)) for at in range(MAX_READ + 300)]
    head, segments = extended(begun("chain", before="", now_ms=1), rows)
    await store.change(put_head(head, expected=0), *segments)
    pages = AuditPages(store)
    part = await pages.page(lambda line: line.n == 7, limit=10)
    assert part.rows == []
    assert part.read_to_ms == 300
    rest = await pages.page(lambda line: line.n == 7, limit=10, token=part.token)
    assert [line.n for _, line in rest.rows] == [7]
    assert rest.token == ""


async def test_a_sound_audit_is_verified_and_a_changed_row_is_found() -> None:
    async with hub_world() as world:
        await world.create()
        await world.send("acme/echo", by="carol")
        sound = await verification(world)
        assert (sound["isSound"], sound["rows"], sound["chains"], sound["faults"]) == (
            True,
            3,
            1,
            [],
        )
        assert len(sound["newestHash"]) == 64
        hub = world.gateway.hub
        assert hub is not None
        store = hub.changes.store
        (record,) = await store.records(SEGMENT, limit=2)
        forged = record.body.replace(b"user:carol", b"user:mally")
        await store.change(Put(key=record.key, body=forged, expected=record.version))
        found = await verification(world)
        assert not found["isSound"]
        ((fault),) = found["faults"]
        assert fault["chain"] == sound["newestChain"]
        assert "hash" in fault["what"]


async def test_an_audit_that_is_too_large_is_left_to_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trunkline.hub.audit_api.MAX_VERIFIED", 2)
    async with hub_world() as world:
        await world.create()
        await world.send("acme/echo", by="carol")
        answer = await world.call("POST", "/audit/verify")
        assert answer.status == 400
        assert "trunkline audit verify" in json.loads(answer.body)["error"]["message"]


async def test_a_damaged_head_hides_no_other_chain() -> None:
    async with audited() as a:
        await a.world.send("say hi")
        await a.writer.flush()
        await a.store.change(Put(key=Key(HEAD, "", "broken"), body=b"{}\nx", expected=0))
        found = await AuditPages(a.store).page(lambda _: True, limit=5)
        assert [line.kind for _, line in found.rows] == ["outcome", "attempt"]
