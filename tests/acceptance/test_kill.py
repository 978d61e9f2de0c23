"""`kill -9`, again and again, under load: nothing that was acknowledged is lost."""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.acceptance.kill_clients import ENDED, PAUSED, Client, Facts
from tests.acceptance.kill_gateway import KillableGateway, Row
from tests.remote.http.peer import client as http_client

from trunkline.engine.recovery import restart_reason
from trunkline.model.values import TERMINAL, TaskState

CLIENTS = 8
SUBMITTED, WORKING, FAILED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.FAILED


# Seconds by which each commit takes longer, where the disk is a slow one. A turn that began
# before its commit would be caught by nearly every kill.
SLOW_S = 0.05


@pytest.mark.parametrize(
    ("store", "kills", "delay_s"), [("sqlite", 15, 0), ("json-file", 5, 0), ("sqlite", 5, SLOW_S)]
)
async def test_kills_lose_nothing_and_repeat_nothing(
    tmp_path: Path, store: str, kills: int, delay_s: float
) -> None:
    await run(tmp_path, store=store, kills=kills, agents=("one",), seed=20, delay_s=delay_s)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("store", "kills", "delay_s"),
    [("sqlite", 250, 0), ("sqlite", 50, SLOW_S), ("json-file", 50, 0), ("json-file", 10, SLOW_S)],
)
async def test_hundreds_of_kills_lose_nothing_and_repeat_nothing(
    tmp_path: Path, store: str, kills: int, delay_s: float
) -> None:
    # A slow disk lets fewer tasks through, so that one agent is enough for them.
    agents = ("one",) if delay_s else ("one", "two", "three")
    await run(tmp_path, store=store, kills=kills, agents=agents, seed=1, delay_s=delay_s)


async def run(
    folder: Path, *, store: str, kills: int, agents: tuple[str, ...], seed: int, delay_s: float
) -> None:
    chance = random.Random(seed)
    gateway = KillableGateway(folder, agents, store, commit_delay_s=delay_s)
    facts = Facts()
    before: dict[str, Row] = {}
    interrupted = 0
    await gateway.start()
    try:
        for number in range(kills):
            await under_load(gateway, agents, facts, chance, number)
            left = gateway.read_file()
            check_file(left, facts, before)
            await gateway.start()
            async with http_client() as http:
                checker = Client(http, urls(gateway, agents), facts, chance, "checker")
                interrupted += await check_restart(checker, facts, left, chance)
            before = left
        async with http_client() as http:
            checker = Client(http, urls(gateway, agents), facts, chance, "checker")
            await check_all(checker, facts, before)
        assert await gateway.stop() == 0
    except BaseException:
        print(gateway.log()[-20_000:])
        raise
    finally:
        await gateway.kill()
    end = gateway.read_file()
    facts.touched |= facts.agents.keys()
    check_file(end, facts, before)
    check_order(end)
    twice = {turn: times for turn, times in gateway.turns().items() if times > 1}
    assert not twice, f"turns that ran more than once: {twice}"
    # The run was worth something: turns were interrupted, and queues formed.
    assert interrupted >= kills
    assert sum(row.state is TaskState.COMPLETED for row in end.values()) > 5 * kills


def urls(gateway: KillableGateway, agents: tuple[str, ...]) -> dict[str, str]:
    return {agent: gateway.url(agent) for agent in agents}


async def under_load(
    gateway: KillableGateway,
    agents: tuple[str, ...],
    facts: Facts,
    chance: random.Random,
    number: int,
) -> None:
    """Clients at work, and the gateway killed after some amount of traffic."""
    facts.touched.clear()
    facts.recent.clear()
    enough = chance.randrange(60, 400)
    async with http_client() as http:
        clients = [
            Client(
                http,
                urls(gateway, agents),
                facts,
                random.Random(f"{chance.random()}"),
                f"round-{number}-client-{index}",
            )
            for index in range(CLIENTS)
        ]
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.work())
            await facts.reach(facts.count + enough)
            await gateway.kill()


def check_file(file: dict[str, Row], facts: Facts, before: dict[str, Row]) -> None:
    """The file holds all that was acknowledged, without holes, and nothing ended twice."""
    for task_id, row in file.items():
        if row == before.get(task_id):
            continue
        assert sorted(row.events) == list(range(1, len(row.events) + 1)), f"{task_id} has holes"
        states = [state for _, state in statuses(row)]
        assert states[-1] == row.state
        assert all(state not in ENDED for state in states[:-1]), f"{task_id} went on: {states}"
    for task_id, events in facts.events.items():
        stored = file[task_id].events
        for seq, data in events.items() if task_id in facts.touched else ():
            kind, body = stored[seq]
            # Those two are stored with more than clients see.
            if kind not in ("message.1", "submitted.1"):
                assert body in data, f"{task_id} {seq}: {body!r} was told as {data!r}"
    for task_id, task in facts.ended.items():
        assert file[task_id].state == task["status"]["state"]
    for task_id, old in before.items():
        row = file[task_id]
        assert old.events.items() <= row.events.items(), f"{task_id} was changed"
        if old.state in TERMINAL:
            assert old == row


async def check_restart(
    checker: Client, facts: Facts, left: dict[str, Row], chance: random.Random
) -> int:
    """What the new process makes of what the old one left. Returns how many runs it failed."""
    interrupted = 0
    for task_id, row in left.items():
        if row.state is not WORKING:
            continue
        interrupted += 1
        agent = facts.agents.get(task_id, next(iter(checker._urls)))
        task = await find(checker, task_id, agent)
        assert task["status"]["state"] == FAILED
        assert task["status"]["message"]["parts"][0]["text"] == restart_reason(WORKING)
    others = sorted(facts.agents.keys() - facts.touched)
    sample = facts.touched | set(chance.sample(others, min(20, len(others))))
    await asyncio.gather(*(check_task(checker, facts, task_id) for task_id in sample))
    return interrupted


async def find(checker: Client, task_id: str, agent: str) -> Any:
    """A task that may not have been acknowledged, so that its agent is not known."""
    for each in (agent, *checker._urls):
        task = await checker.call(each, "GetTask", {"id": task_id})
        if task is not None:
            return task
    raise AssertionError(f"{task_id} is gone")


async def check_task(checker: Client, facts: Facts, task_id: str) -> None:
    """The task and its journal, as clients see them, hold all that was told before."""
    agent = facts.agents[task_id]
    known = dict(facts.events.get(task_id, {}))
    task = await checker.call(agent, "GetTask", {"id": task_id})
    assert task is not None, f"{task_id} is gone"
    if task_id in facts.ended:
        assert task == facts.ended[task_id]
    # The checker compares every entry with what was told before, byte for byte.
    wants = max(known, default=1)
    replay = await checker.follow(agent, task_id, wants=wants, after=0)
    assert sorted(replay) == list(range(1, len(replay) + 1))
    assert known.items() <= replay.items()


async def check_all(checker: Client, facts: Facts, left: dict[str, Row]) -> None:
    """Queued tasks go on by themselves, and end."""
    for task_id, row in left.items():
        if row.state is not SUBMITTED:
            continue
        agent = facts.agents.get(task_id, next(iter(checker._urls)))
        state = ""
        for _ in range(400):
            state = (await find(checker, task_id, agent))["status"]["state"]
            if state in ENDED or state == PAUSED:
                break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError(f"{task_id} did not go on: {state}")
    for task_id in facts.agents:
        await check_task(checker, facts, task_id)


def statuses(row: Row) -> list[tuple[str, str]]:
    """Time and state of every status, in order."""
    found = []
    for _, (kind, body) in sorted(row.events.items()):
        event = msgspec.json.decode(body)
        event = event.get("statusUpdate", event) if kind == "message.1" else event
        event = event["task"] if kind == "submitted.1" else event
        if "status" in event:
            found.append((event["status"]["timestamp"], event["status"]["state"]))
    return found


def check_order(file: dict[str, Row]) -> None:
    """In one context, turns begin in the order in which their tasks were created."""
    lanes: dict[tuple[object, str], list[Row]] = {}
    for row in file.values():
        if row.lane[1].startswith("shared-"):
            lanes.setdefault(row.lane, []).append(row)
    lengths = []
    for rows in lanes.values():
        began = [[time for time, state in statuses(row) if state == WORKING][:1] for row in rows]
        times = [time for one in began for time in one]
        assert times == sorted(times)
        lengths.append(len(times))
    # How the clients spread their messages over the contexts is a matter of chance.
    assert max(lengths) > 10
