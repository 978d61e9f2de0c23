"""News: merged, numbered, bounded, and continued from a ring."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trunkline.console.live import live_feed
from trunkline.console.live.live_feed import EVERY_S, LINGER_S, LiveFeed, News, Reader
from trunkline.model.principal import OPERATOR, Principal
from trunkline.ports.live import TOPICS, Topic
from trunkline.ports.store import Scope
from trunkline.testing import FakeClock, settle

ALL = frozenset(TOPICS)
BOSS = Principal(id="boss", roles=(OPERATOR,))
ALICE = Principal(id="alice")
BOB = Principal(id="bob")


def scope(principal: str) -> Scope:
    return Scope("acme/a", "", principal)


class Feed(LiveFeed):
    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.heard: list[bool] = []
        super().__init__(
            clock=self.clock,
            may_read=lambda by, of: by.id == of.principal or OPERATOR in by.roles,
            on_heard=self.heard.append,
        )

    async def sent(self) -> None:
        """Let all that was told go out."""
        await settle()
        await self.clock.advance(EVERY_S)


def frames(reader: Reader) -> list[tuple[int, str, Any]]:
    found = []
    for frame in reader.take().decode().split("\n\n"):
        if frame:
            fields = dict(line.split(": ", 1) for line in frame.split("\n"))
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


def said(reader: Reader) -> list[Any]:
    return [data if event != "resync" else "resync" for _, event, data in frames(reader)]


async def test_nothing_is_kept_while_nobody_listens() -> None:
    feed = Feed()
    feed.tell("tasks", {"id": "t"}, key="t", scope=scope("alice"))
    assert (feed.is_heard, feed.heard) == (False, [])
    reader = feed.read(BOSS, ALL, None)
    assert (feed.is_heard, feed.heard) == (True, [True])
    assert frames(reader) == []
    await feed.close()
    assert feed.heard == [True, False]


async def test_only_the_last_of_a_key_goes_out_and_the_last_one_always() -> None:
    feed = Feed()
    reader = feed.read(BOSS, ALL, None)
    for number in range(10_000):
        feed.tell("tasks", {"n": number}, key="t", scope=scope("alice"))
        if number % 100 == 0:
            await feed.clock.advance(0.001)
    await feed.sent()
    found = frames(reader)
    # A hundred steps of a millisecond, and a fifth of a second to the end.
    assert 1 <= len(found) <= 3
    assert found[-1][1:] == ("task", {"n": 9999})
    await feed.close()


async def test_a_reader_that_reads_at_once_gets_at_most_five_a_second() -> None:
    feed = Feed()
    reader = feed.read(BOSS, ALL, None)
    count = 0
    for number in range(1000):
        feed.tell("tasks", {"n": number}, key="t", scope=scope("alice"))
        await feed.clock.advance(0.01)
        count += len(frames(reader))
    # Ten seconds.
    assert 45 <= count <= 51
    await feed.close()


async def test_news_go_to_whom_they_are_about_and_to_operators() -> None:
    feed = Feed()
    readers = {by.id: feed.read(by, ALL, None) for by in (BOSS, ALICE, BOB)}
    feed.tell("tasks", "of alice", key="1", scope=scope("alice"))
    feed.tell("calls", "of bob", key="2", scope=scope("bob"))
    feed.tell("wire", "wire", key="3")
    feed.tell("agents", {}, key="4")
    await feed.sent()
    assert said(readers["boss"]) == ["of alice", "of bob", "wire", {}]
    assert said(readers["alice"]) == ["of alice", {}]
    assert said(readers["bob"]) == ["of bob", {}]
    await feed.close()


async def test_a_reader_gets_the_topics_that_it_asked_for() -> None:
    feed = Feed()
    topics: frozenset[Topic] = frozenset({"wire"})
    reader = feed.read(BOSS, topics, None)
    for topic in TOPICS:
        feed.tell(topic, topic)
    await feed.sent()
    assert said(reader) == ["wire"]
    await feed.close()


async def test_a_reader_that_does_not_read_is_told_to_begin_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_feed, "MAX_PENDING", 10)
    feed = Feed()
    slow, quick = feed.read(BOSS, ALL, None), feed.read(BOSS, ALL, None)
    for number in range(25):
        feed.tell("tasks", number, key=f"{number}")
        await feed.sent()
        assert said(quick) == [number]
    found = frames(slow)
    assert found[0][1] == "resync"
    # The news behind the loss are there.
    assert [data for _, _, data in found[1:]] == [22, 23, 24]
    assert [id for id, _, _ in found] == sorted({id for id, _, _ in found})
    await feed.close()


async def test_many_changes_of_few_tasks_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "MAX_PENDING", 10)
    feed = Feed()
    reader = feed.read(BOSS, ALL, None)
    for number in range(200):
        feed.tell("tasks", number, key=f"{number % 10}")
        await feed.sent()
    assert said(reader) == [*range(190, 200)]
    await feed.close()


async def test_too_many_news_at_once_are_lost_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "MAX_COLLECTED", 5)
    feed = Feed()
    reader = feed.read(BOSS, ALL, None)
    for number in range(8):
        feed.tell("tasks", number, key=f"{number}")
    await feed.sent()
    assert said(reader) == ["resync", 6, 7]
    await feed.close()


async def test_a_stream_continues_behind_its_last_id() -> None:
    feed = Feed()
    first = feed.read(ALICE, ALL, None)
    for number in range(5):
        feed.tell("tasks", number, key=f"{number}", scope=scope("alice"))
        feed.tell("tasks", "of bob", key=f"bob {number}", scope=scope("bob"))
    await feed.sent()
    seen = frames(first)
    feed.close_reader(first)
    # While nobody listens the news of the next minute are kept.
    feed.tell("tasks", 5, key="5", scope=scope("alice"))
    await feed.sent()
    assert said(feed.read(ALICE, ALL, seen[2][0])) == [3, 4, 5]
    assert said(feed.read(ALICE, ALL, seen[4][0])) == [5]
    assert said(feed.read(ALICE, ALL, feed.last_id)) == []
    await feed.close()


async def test_what_the_ring_does_not_have_is_told_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "RING", 4)
    feed = Feed()
    before = feed.last_id
    reader = feed.read(BOSS, ALL, None)
    ids = []
    for number in range(6):
        feed.tell("tasks", number, key=f"{number}")
        await feed.sent()
        ids += [id for id, _, _ in frames(reader)]
    assert said(feed.read(BOSS, ALL, ids[1])) == [2, 3, 4, 5]
    assert said(feed.read(BOSS, ALL, ids[0])) == ["resync"]
    assert said(feed.read(BOSS, ALL, before - 1)) == ["resync"]
    # An id of the future is of another process.
    assert said(feed.read(BOSS, ALL, feed.last_id + 1)) == ["resync"]
    await feed.close()


async def test_nothing_is_collected_a_minute_after_the_last_stream() -> None:
    feed = Feed()
    reader = feed.read(BOSS, ALL, None)
    feed.close_reader(reader)
    feed.close_reader(reader)
    last = feed.last_id
    await feed.clock.advance(LINGER_S / 2)
    # Another one in between begins the minute anew.
    other = feed.read(BOSS, ALL, last)
    assert said(other) == []
    feed.close_reader(other)
    await feed.clock.advance(LINGER_S - 1)
    assert feed.is_heard
    await feed.clock.advance(2)
    assert (feed.is_heard, feed.heard) == (False, [True, False])
    feed.tell("tasks", "lost", key="t")
    assert said(feed.read(BOSS, ALL, last)) == ["resync"]
    await feed.close()


async def test_ids_of_a_later_process_are_higher() -> None:
    clock = FakeClock()
    one = Feed(clock)
    reader = one.read(BOSS, ALL, None)
    for number in range(100):
        one.tell("tasks", number)
    await one.sent()
    last = frames(reader)[-1][0]
    await one.close()
    await clock.advance(1)
    other = Feed(clock)
    assert other.last_id > last
    assert said(other.read(BOSS, ALL, last)) == ["resync"]
    await other.close()


async def test_the_end_ends_all_streams_and_later_ones() -> None:
    feed = Feed()
    reader = feed.read(BOSS, ALL, None)
    feed.end_streams()
    await reader.wait()
    assert (reader.is_ended, reader.take()) == (True, b"")
    assert feed.read(BOSS, ALL, None).is_ended
    feed.tell("tasks", 1)
    await feed.close()


async def test_news_are_forwarded_once_and_those_of_others_never() -> None:
    feed = Feed()
    forwarded: list[News] = []
    feed.forward_to(forwarded.extend)
    assert feed.is_heard
    feed.tell("tasks", "own", key="1", scope=scope("alice"))
    feed.take(News("tasks", "2", "theirs", scope("alice"), is_from_elsewhere=True))
    await feed.sent()
    assert [news.data for news in forwarded] == ["own"]
    reader = feed.read(ALICE, ALL, None)
    # A stream of this node still listens.
    feed.forward_to(None)
    assert feed.heard == [True]
    feed.close_reader(reader)
    await feed.clock.advance(LINGER_S)
    assert feed.heard == [True, False]
    feed.forward_to(forwarded.extend)
    feed.forward_to(None)
    assert feed.heard == [True, False, True, False]
    await feed.close()


@hypothesis_settings(max_examples=60)
@given(st.lists(st.one_of(st.integers(0, 6), st.sampled_from(["read", "lost"])), max_size=60))
async def test_a_reader_knows_the_last_of_each_key_or_that_it_does_not(steps: list[Any]) -> None:
    """Whatever comes when, a reader that applies its news knows what was told last."""
    feed = Feed()
    reader = feed.read(BOSS, ALL, None)
    told: dict[str, int] = {}
    known: dict[str, int] = {}
    last_id = 0

    def look() -> None:
        nonlocal last_id
        for id, event, data in frames(reader):
            assert id > last_id
            last_id = id
            if event == "resync":
                known.clear()
                known.update(told)
            else:
                known[data[0]] = data[1]

    for number, step in enumerate(steps):
        if step == "read":
            await feed.sent()
            look()
        elif step == "lost":
            # The connection was lost; the next one continues, maybe after a while.
            look()
            feed.close_reader(reader)
            reader = feed.read(BOSS, ALL, last_id or feed.last_id)
        else:
            told[f"{step}"] = number
            feed.tell("tasks", [f"{step}", number], key=f"{step}")
    await feed.sent()
    look()
    assert known == told
    await feed.close()
