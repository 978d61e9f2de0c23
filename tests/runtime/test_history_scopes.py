"""History of a plan or an objective, where the OPT extension is in use (D-32)."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.runtime.world import ALICE as PLAIN_ALICE
from tests.runtime.world import BOB, World, world

from trunkline.engine.history_scope import OPT
from trunkline.model.calls import Caller, GetTaskRequest
from trunkline.model.values import Task, text_of
from trunkline.ports.store import Store
from trunkline.runtime.fanout import Reply

ALICE = replace(PLAIN_ALICE, extensions=(OPT,))
decoded = msgspec.json.Decoder(Task).decode


async def sent(
    w: World, text: str, caller: Caller = ALICE, length: int | None = None, **metadata: Any
) -> Task:
    request = w.request(f"say {text}", history_length=length)
    named = {f"opt/v1/{key}": value for key, value in metadata.items()}
    request = replace(request, message=replace(request.message, metadata=named or None))
    answer = await w.service.send(w.agent, caller, request)
    assert not isinstance(answer, Reply)
    return decoded(answer.task)


async def got(w: World, task: Task, caller: Caller = ALICE, length: int | None = None) -> list[str]:
    request = GetTaskRequest(id=task.id, history_length=length)
    return said(decoded(await w.service.get(w.agent, caller, request)))


def said(task: Task) -> list[str]:
    return [text_of(message.parts) for message in task.history]


async def test_d32_a_task_shows_the_history_of_its_plan(make_store: Callable[[], Store]) -> None:
    async with world(store=make_store()) as w:
        await sent(w, "one", planId="p")
        await sent(w, "alien", planId="q")
        await sent(w, "plain")
        task = await sent(w, "two", planId="p", historyScope="plan")
        assert said(task) == ["say one", "one", "say two", "two"]
        assert await got(w, task) == ["say one", "one", "say two", "two"]
        assert await got(w, task, length=3) == ["one", "say two", "two"]
        assert await got(w, task, length=0) == []


async def test_d32_and_of_its_objective_over_plans() -> None:
    async with world() as w:
        await sent(w, "one", planId="p", objectiveId="o")
        await sent(w, "two", planId="q", objectiveId="o")
        task = await sent(w, "three", planId="q", objectiveId="o", historyScope="objective")
        assert await got(w, task) == ["say one", "one", "say two", "two", "say three", "three"]
        plan = await sent(w, "four", planId="q", objectiveId="o", historyScope="plan")
        assert said(plan) == ["say two", "two", "say three", "three", "say four", "four"]


async def test_d32_without_the_extension_or_the_wish_history_is_that_of_the_task() -> None:
    async with world() as w:
        await sent(w, "one", planId="p")
        task = await sent(w, "two", planId="p", historyScope="plan")
        assert await got(w, task, PLAIN_ALICE) == ["say two", "two"]
        for odd in ("task", "everything", 7):
            other = await sent(w, "three", planId="p", historyScope=odd)
            assert await got(w, other) == ["say three", "three"]
        unnamed = await sent(w, "four", historyScope="plan")
        assert await got(w, unnamed) == ["say four", "four"]


async def test_d32_nobody_sees_the_plan_of_another_caller() -> None:
    async with world() as w:
        await sent(w, "secret", replace(BOB, extensions=(OPT,)), planId="p")
        task = await sent(w, "mine", planId="p", historyScope="plan")
        assert await got(w, task) == ["say mine", "mine"]


async def test_d32_what_is_stored_stays_as_it_was() -> None:
    async with world() as w:
        await sent(w, "one", planId="p")
        task = await sent(w, "two", planId="p", historyScope="plan")
        await got(w, task)
        [latest, _] = await w.listed()
        assert said(latest) == ["say two", "two"]
