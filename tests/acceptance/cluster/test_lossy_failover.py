"""A standby that lacks the last commits becomes the primary under load, while nodes are killed.

What was acknowledged meanwhile is lost, as docs/guides/scaling.md says. Everything else stays true.
"""

import asyncio
import copy
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.acceptance.cluster.clients import Told
from tests.acceptance.cluster.database import SHORT, config_on, read_postgres
from tests.acceptance.cluster.history import History, messages_of
from tests.acceptance.cluster.nodes import Nodes
from tests.acceptance.cluster.trial import is_ready
from tests.acceptance.conftest import eventually
from tests.acceptance.kill_clients import ENDED, PAUSED
from tests.acceptance.kill_gateway import Row
from tests.postgres.fixtures import fill_template
from tests.postgres.proxy import database_proxy
from tests.postgres.server import PostgresServer
from tests.postgres.standby import Standby, with_standby
from tests.remote.http.peer import client as remote_client

_CLIENTS = 8
# Facts that clients learn before the standby falls behind, while it is behind, and afterwards.
_FACTS = 400


@asynccontextmanager
async def _clients(nodes: Nodes, phase: str) -> AsyncIterator[None]:
    """At work until the end of the block. They give up at once then, unless they are told that it
    is over."""
    async with remote_client() as http:
        tasks = [
            asyncio.create_task(nodes.client(http, f"{phase}-{number}").work())
            for number in range(_CLIENTS)
        ]
        try:
            yield
            if nodes.told.is_over:
                async with asyncio.timeout(60):
                    await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [each for each in results if isinstance(each, Exception)]
    assert not failed, failed


async def _learn(told: Told) -> None:
    async with asyncio.timeout(60):
        await told.reach(told.count + _FACTS)


async def _fail_over(nodes: Nodes, standby: Standby, way_freezes: partial[None]) -> Told:
    """Returns what clients had been told when the standby had it too."""
    told = nodes.told
    async with _clients(nodes, "before"):
        await _learn(told)
        kept = copy.copy(told)
        kept.events = copy.deepcopy(told.events)
        kept.ended = dict(told.ended)
        kept.messages = copy.deepcopy(told.messages)
        await asyncio.to_thread(standby.catch_up)
        way_freezes()
        await nodes.kill(nodes.all[0])
        await _learn(told)
    await asyncio.to_thread(standby.promote)
    await nodes.revive(nodes.all[0])
    for node in nodes.all:
        await eventually(partial(is_ready, node))
    return kept


async def _go_on(nodes: Nodes) -> None:
    nodes.told = Told()
    async with _clients(nodes, "after"):
        await _learn(nodes.told)
        await nodes.kill(nodes.all[1])
        await _learn(nodes.told)
        await nodes.revive(nodes.all[1])
        # What is under way is stored before the tasks are read.
        nodes.told.is_over = True


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
async def test_what_a_failover_loses_is_the_last_moments_alone(
    tmp_path: Path, own_postgres: PostgresServer, seed: int
) -> None:
    created = await asyncio.to_thread(own_postgres.create_database, fill_template)
    async with database_proxy(own_postgres.url("postgres"), tcp=True) as way:
        address = conninfo_to_dict(way.url)
        follows = f"host={address['host']} port={address['port']}"
        with with_standby(own_postgres, created, way=follows) as (url, standby):
            database = str(conninfo_to_dict(url)["dbname"])
            nodes = Nodes(tmp_path, [config_on(url, SHORT)] * 3, random.Random(seed))
            try:
                await nodes.start()
                before = nodes.told
                kept = await _fail_over(nodes, standby, partial(way.freeze))
                await _go_on(nodes)
                rows = await _all_ended(standby.url(database))
                _check(nodes, rows, before=before, kept=kept)
            except BaseException:
                print(nodes.logs())
                raise
            finally:
                way.thaw()
                await nodes.close()


async def _all_ended(url: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}

    async def have_ended() -> bool:
        nonlocal rows
        rows = await asyncio.to_thread(read_postgres, url)
        return all(row.state in ENDED or row.state == PAUSED for row in rows.values())

    await eventually(have_ended)
    return rows


def _check(nodes: Nodes, rows: dict[str, Row], *, before: Told, kept: Told) -> None:
    turns, after = nodes.turns(), nodes.told
    # What the standby had.
    whole = History(rows, events=kept.events, ended=kept.ended, messages=kept.messages)
    whole.check_journals()
    whole.check_told()
    whole.check_messages()
    runs = Counter(
        (turn.task_id, turn.message_id)
        for turn in turns
        if turn.kind == "effects" and turn.task_id in kept.ended
    )
    assert not [turn for turn, count in runs.items() if count > 1]
    # What came after it, with a node that was killed as well.
    new = {
        task_id: row
        for task_id, row in rows.items()
        if all(message_id in after.messages for message_id in messages_of(row))
    }
    History(
        new,
        events={task_id: told for task_id, told in after.events.items() if task_id in new},
        ended={task_id: told for task_id, told in after.ended.items() if task_id in new},
        messages=after.messages,
        turns=[turn for turn in turns if turn.message_id in after.messages],
        stops=nodes.stops,
    ).check()
    acknowledged = {sent.task_id for sent in before.messages.values() if sent.acknowledged_ns}
    lost = acknowledged - rows.keys()
    assert lost, "the standby had everything"
    assert not lost & {sent.task_id for sent in kept.messages.values() if sent.acknowledged_ns}
    for node in nodes.all[1:]:
        assert "the database failed over, so this node begins anew" in node.log()
    print(f"{len(rows)} tasks, {len(new)} of them after the failover, {len(lost)} lost")
