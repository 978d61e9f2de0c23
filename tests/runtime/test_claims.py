"""The driver claim: an agent works for one caller at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.runtime.test_reservations import spends, used
from tests.runtime.world import ALICE, BOB, World, said, world

from trunkline.engine.transitions import Step
from trunkline.model.calls import Caller, CancelTaskRequest, GetTaskRequest
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Task, TaskState
from trunkline.runtime.service import TaskAnswer
from trunkline.testing import settle

CAROL = Caller(principal=Principal(id="carol", grants=EVERYTHING))
ELSEWHERE = "agent is processing a turn for another caller"
_decode = msgspec.json.Decoder(Task).decode


class Callers:
    """Several callers of one world."""

    def __init__(self, w: World) -> None:
        self.w = w

    async def submit(self, by: Caller, text: str, *, now: bool = True, context: str = "") -> Task:
        request = self.w.request(text, now=now, context=context)
        answer = await self.w.service.send(self.w.agent, by, request)
        assert isinstance(answer, TaskAnswer)
        return _decode(answer.task)

    async def state(self, by: Caller, task: Task) -> TaskState:
        request = GetTaskRequest(id=task.id)
        return _decode(await self.w.service.get(self.w.agent, by, request)).status.state

    async def cancel(self, by: Caller, task: Task) -> None:
        await self.w.service.cancel(self.w.agent, by, CancelTaskRequest(id=task.id))
        await settle()


@asynccontextmanager
async def callers(**options: Any) -> AsyncIterator[Callers]:
    async with world(driver_claim=True, **options) as w:
        yield Callers(w)


async def test_another_caller_waits_for_the_turns_of_the_driver() -> None:
    async with callers() as c:
        first = await c.submit(ALICE, "hang")
        second = await c.submit(ALICE, "hang")
        other = await c.submit(BOB, "hang")
        assert await c.state(ALICE, second) is TaskState.WORKING
        assert await c.state(BOB, other) is TaskState.SUBMITTED
        await c.cancel(ALICE, first)
        assert await c.state(BOB, other) is TaskState.SUBMITTED
        await c.cancel(ALICE, second)
        assert await c.state(BOB, other) is TaskState.WORKING


async def test_no_caller_starves() -> None:
    async with callers() as c:
        first = await c.submit(ALICE, "hang")
        other = await c.submit(BOB, "hang")
        later = [await c.submit(ALICE, "hang") for _ in range(5)]
        third = await c.submit(CAROL, "hang")
        await c.cancel(ALICE, first)
        assert await c.state(BOB, other) is TaskState.WORKING
        assert {await c.state(ALICE, task) for task in later} == {TaskState.SUBMITTED}
        await c.cancel(BOB, other)
        assert {await c.state(ALICE, task) for task in later} == {TaskState.WORKING}
        for task in later:
            await c.cancel(ALICE, task)
        assert await c.state(CAROL, third) is TaskState.WORKING


@pytest.mark.parametrize("max_concurrency", [0, 2])
async def test_h_11_h_26_another_caller_is_refused(max_concurrency: int) -> None:
    async with callers(preset_name="hub", max_concurrency=max_concurrency) as c:
        await c.submit(ALICE, "hang")
        refused = await c.submit(BOB, "say hi")
        assert (refused.status.state, said(refused)) == (TaskState.FAILED, ELSEWHERE)
        # The same caller may have further turns, up to the maximum.
        second = await c.submit(ALICE, "hang")
        assert await c.state(ALICE, second) is TaskState.WORKING
        third = await c.submit(ALICE, "say hi", now=False)
        assert third.status.state is (TaskState.FAILED if max_concurrency else TaskState.COMPLETED)
        for run in [*c.w.runtime.runs.running]:
            await c.w.runtime.runs.stop_run(run, Step.CANCEL, "")
        await settle()
        assert (await c.submit(BOB, "say hi", now=False)).status.state is TaskState.COMPLETED


async def test_a_task_that_waits_too_long_is_refused_and_costs_nothing() -> None:
    async with callers(busy="wait", busy_wait_s=5, gate=spends()) as c:
        first = await c.submit(ALICE, "hang")
        other = await c.submit(BOB, "say hi")
        blocking = c.w.soon(c.submit(BOB, "say hi", now=False))
        await settle()
        assert await used(c.w.store) == 3
        await c.w.clock.advance(4)
        assert await c.state(BOB, other) is TaskState.SUBMITTED
        await c.w.clock.advance(2)
        assert await c.state(BOB, other) is TaskState.REJECTED
        refused = await blocking
        assert said(refused) == ELSEWHERE
        assert refused.status.message is not None
        assert (refused.status.message.metadata or {})["reason"] == "busy"
        assert await used(c.w.store) == 1
        await c.cancel(ALICE, first)
        assert (await c.submit(BOB, "say hi", now=False)).status.state is TaskState.COMPLETED


async def test_a_turn_that_begins_in_time_is_not_refused_later() -> None:
    async with callers(busy="wait", busy_wait_s=5) as c:
        first = await c.submit(ALICE, "hang")
        other = await c.submit(BOB, "hang")
        await c.w.clock.advance(4)
        await c.cancel(ALICE, first)
        await c.w.clock.advance(20)
        assert await c.state(BOB, other) is TaskState.WORKING


async def test_a_further_message_keeps_its_place() -> None:
    async with callers(busy="wait", busy_wait_s=5) as c:
        asked = await c.submit(BOB, "ask which?", now=False)
        first = await c.submit(ALICE, "hang")
        request = c.w.request("say this", task=asked.id, now=True)
        await c.w.service.send(c.w.agent, BOB, request)
        await c.w.clock.advance(60)
        assert await c.state(BOB, asked) is TaskState.SUBMITTED
        await c.cancel(ALICE, first)
        assert await c.state(BOB, asked) is TaskState.COMPLETED
