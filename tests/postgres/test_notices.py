"""Notices by NOTIFY and LISTEN: the others hear them soon, or hear that they missed some."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.postgres.proxy import DatabaseProxy, database_proxy

from trunkline.clock import SystemClock
from trunkline.ports.cluster import Advanced, Missed, NodeLeft, Notice, Posted, RoomLeft
from trunkline.stores.postgres.cluster import SQL
from trunkline.stores.postgres.database import Database, LastingConnection
from trunkline.stores.postgres.notices import PROOF_S, Notices, messages
from trunkline.stores.statements import Statements

PATIENCE_S = 20


class Node:
    """Sends notices, and keeps those that it hears."""

    def __init__(self, url: str, *, sql: Statements = SQL, proof_s: float = PROOF_S) -> None:
        self.database = Database(url)
        self.notices = Notices(
            self.database, sql, clock=SystemClock(), listen_url=url, proof_s=proof_s
        )
        self.heard: list[Notice] = []
        self._news = asyncio.Event()

    def hear(self, notice: Notice) -> None:
        self.heard.append(notice)
        self._news.set()

    async def until(self, condition: Callable[[list[Notice]], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition(self.heard):
                self._news.clear()
                await self._news.wait()

    async def until_count(self, count: int) -> None:
        await self.until(lambda heard: len(heard) >= count)

    async def until_heard(self, notice: Notice) -> None:
        await self.until(lambda heard: notice in heard)


@asynccontextmanager
async def listening(*nodes: Node) -> AsyncIterator[tuple[Node, ...]]:
    async with AsyncExitStack() as stack:
        for node in nodes:
            stack.push_async_callback(node.notices.close)
            await node.notices.start(node.hear)
        yield nodes


@asynccontextmanager
async def through_proxy(
    url: str, *, proof_s: float = PROOF_S
) -> AsyncIterator[tuple[DatabaseProxy, Node, Node]]:
    """Two nodes, the second behind a proxy."""
    async with (
        database_proxy(url) as proxy,
        listening(Node(url), Node(proxy.url, proof_s=proof_s)) as (one, two),
    ):
        yield proxy, one, two


async def test_notices_reach_all_others_and_not_the_sender(cleared_postgres_url: str) -> None:
    nodes = [Node(cleared_postgres_url) for _ in range(3)]
    async with listening(*nodes) as (one, two, three):
        told: list[Notice] = [
            Posted('["agent","","alice","✓\\u0000"]'),
            RoomLeft("agent", 3),
            NodeLeft(),
        ]
        for notice in told:
            one.notices.tell(notice)
        await two.until_heard(told[-1])
        await three.until_heard(told[-1])
        assert two.heard == three.heard == told
        # What comes back has passed all that the first node could have heard of itself.
        two.notices.tell(Posted("back"))
        await one.until_heard(Posted("back"))
        assert one.heard == [Posted("back")]


async def test_notices_of_one_task_become_one(cleared_postgres_url: str) -> None:
    async with listening(Node(cleared_postgres_url), Node(cleared_postgres_url)) as (one, two):
        for seq in range(1, 1001):
            for task in ("a", "b"):
                one.notices.tell(Advanced(task, seq))
        await two.until_heard(Advanced("b", 1000))
        assert two.heard == [Advanced("a", 1000), Advanced("b", 1000)]


async def test_many_notices_are_all_heard(cleared_postgres_url: str) -> None:
    told = [Posted(f"lane {number} {'x' * 100}") for number in range(2000)]
    async with listening(Node(cleared_postgres_url), Node(cleared_postgres_url)) as (one, two):
        for notice in told:
            one.notices.tell(notice)
        await two.until_heard(told[-1])
        assert two.heard == told


def test_messages_stay_within_what_postgresql_takes() -> None:
    notices = [Posted("ü" * length) for length in (1, 1500, 1500, 1900, 1990, 5000, 3)]
    payloads = list(messages("me", notices))
    assert all(len(payload.encode()) < 8000 for payload in payloads)
    assert "missed" in "".join(payloads)
    assert list(messages("me", ())) == ['["me",[]]']


async def test_too_many_notices_become_a_hint_to_look(
    cleared_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.stores.postgres.notices._MAX_PENDING", 100)
    async with listening(Node(cleared_postgres_url), Node(cleared_postgres_url)) as (one, two):
        for number in range(1000):
            one.notices.tell(Posted(str(number)))
        await two.until_heard(Posted("999"))
        assert Missed() in two.heard
        assert len(two.heard) <= 101


async def test_what_another_release_tells_is_a_hint_to_look(cleared_postgres_url: str) -> None:
    async with listening(Node(cleared_postgres_url), Node(cleared_postgres_url)) as (one, two):
        other = LastingConnection(one.database, "test")
        for number, payload in enumerate(["", "{", '["x",[["newer",1]]]', '["x"]', "☂" * 1000]):
            sql = "SELECT pg_notify('trunkline', $1::text)"
            await other.run(sql, (payload.encode(),))
            await two.until_count(number + 1)
        other.close()
        assert two.heard == [Missed()] * 5
        one.notices.tell(NodeLeft())
        await two.until_heard(NodeLeft())


async def test_a_listener_that_raises_hears_the_next_notice(cleared_postgres_url: str) -> None:
    two = Node(cleared_postgres_url)
    hear = two.hear

    def fail(notice: Notice) -> None:
        hear(notice)
        raise ZeroDivisionError

    two.hear = fail  # type: ignore[method-assign]
    async with listening(Node(cleared_postgres_url), two) as (one, _):
        told = [Posted("a"), Posted("b")]
        for notice in told:
            one.notices.tell(notice)
        await two.until_heard(told[-1])
        assert two.heard == told


async def test_a_lost_connection_is_made_again_and_the_listener_looks(
    cleared_postgres_url: str,
) -> None:
    async with through_proxy(cleared_postgres_url) as (proxy, one, two):
        assert proxy.cut("listen") == 1
        await two.until_heard(Missed())
        one.notices.tell(Posted("a"))
        await two.until_heard(Posted("a"))
        # The sender's own connection is another one.
        two.notices.tell(Posted("b"))
        await one.until_heard(Posted("b"))
        assert proxy.cut("notify") == 1
        two.notices.tell(Posted("c"))
        await one.until_heard(Posted("c"))


async def test_notices_that_could_not_be_sent_are_a_hint_to_look(cleared_postgres_url: str) -> None:
    async with through_proxy(cleared_postgres_url) as (proxy, one, two):
        proxy.refuse("notify")
        proxy.cut("notify")
        two.notices.tell(Posted("a"))
        # It listens all the while.
        one.notices.tell(Posted("b"))
        await two.until_heard(Posted("b"))
        proxy.accept("notify")
        await one.until(lambda heard: Missed() in heard or Posted("a") in heard)


async def test_a_pooler_that_swallows_listen_is_noticed(
    cleared_postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    swallowed = Statements("-- name: listen\nSELECT 1;")
    swallowed["notify"] = SQL["notify"]
    deaf = Node(cleared_postgres_url, sql=swallowed, proof_s=0.2)
    with caplog.at_level(logging.WARNING):
        async with listening(deaf):
            await deaf.until_heard(Missed())
    assert "listen_url in [store]" in str(caplog.records[0].__dict__["reason"])


async def test_a_connection_that_is_silent_is_made_again(
    cleared_postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Half-open: nothing arrives, and nothing says so."""
    async with through_proxy(cleared_postgres_url, proof_s=0.3) as (proxy, one, two):
        proxy.freeze("listen")
        one.notices.tell(Posted("a"))
        async with asyncio.timeout(PATIENCE_S):
            while "do not arrive" not in caplog.text:
                await SystemClock().sleep(0.01)
        proxy.thaw("listen")
        await two.until_heard(Missed())
        one.notices.tell(Posted("b"))
        await two.until_heard(Posted("b"))


async def test_a_node_that_is_alone_tells_nothing(cleared_postgres_url: str) -> None:
    one = Node(cleared_postgres_url, proof_s=0.05)
    two = Node(cleared_postgres_url, proof_s=0.05)
    async with listening(one):
        async with asyncio.timeout(PATIENCE_S):
            while one.notices._lonely_rounds <= 2:
                await SystemClock().sleep(0.01)
        told = one.notices.told
        one.notices.tell(Posted("a"))
        async with listening(two):
            async with asyncio.timeout(PATIENCE_S):
                while one.notices._lonely_rounds > 2:
                    await SystemClock().sleep(0.01)
            assert one.notices.told == told
            one.notices.tell(Posted("b"))
            await two.until_heard(Posted("b"))
            assert two.heard == [Posted("b")]


async def test_nothing_is_left_after_the_end(cleared_postgres_url: str) -> None:
    node = Node(cleared_postgres_url)
    async with listening(node):
        node.notices.tell(Posted("a"))
    node.notices.tell(Posted("b"))
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left
    # It begins anew, as a node does that was given up.
    async with listening(node, Node(cleared_postgres_url)) as (_, other):
        node.notices.tell(Posted("c"))
        await other.until_heard(Posted("c"))
