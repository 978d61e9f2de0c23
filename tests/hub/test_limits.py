"""Budgets and rates of agents, as callers meet them."""

import asyncio
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Http
from tests.hub.registry_world import RPC, HubWorld, hub_world, rpc_body

from trunkline.hub.budgets import day_of
from trunkline.model.errors import ConfigError
from trunkline.settings import from_document
from trunkline.testing import settle

ECHO = {"name": "Echo", "backend": {"kind": "echo"}}


def state(answer: Answer) -> str:
    task = answer.json()["result"]["task"]
    return str(task["status"]["state"]).removeprefix("TASK_STATE_")


def reason(answer: Answer) -> str:
    message = answer.json()["result"]["task"]["status"].get("message") or {}
    return str((message.get("metadata") or {}).get("reason", ""))


def text(answer: Answer) -> str:
    parts = answer.json()["result"]["task"]["status"]["message"]["parts"]
    return str(parts[0]["text"])


async def block(world: HubWorld, handle: str) -> Any:
    return (await world.card(handle)).json()["_trunkline"]


async def row(world: HubWorld, agent: dict[str, Any]) -> Any:
    return (await world.call("GET", f"/agents/{agent['id']}")).json()


async def change(world: HubWorld, agent: dict[str, Any], **limits: Any) -> None:
    answer = await world.call("PATCH", f"/agents/{agent['id']}", {"limits": limits})
    assert answer.status == 200, answer.body


async def test_h_07_a_query_shows_on_the_next_card() -> None:
    async with hub_world() as world:
        agent = await world.create()
        assert (await block(world, "acme/echo"))["queriesToday"] == 0
        assert not (await row(world, agent)).get("lastQueryAt")
        for number in (1, 2, 3):
            assert state(await world.send("acme/echo")) == "COMPLETED"
            assert (await block(world, "acme/echo"))["queriesToday"] == number
        shown = await row(world, agent)
        assert (shown["queriesToday"], shown["queriesAllTime"]) == (3, 3)
        assert shown["lastQueryAt"]
        world.clock.jump(24 * 3600)
        shown = await row(world, agent)
        assert (shown["queriesToday"], shown["queriesAllTime"]) == (0, 3)


async def test_200_callers_of_a_budget_of_100() -> None:
    async with hub_world() as world:
        await world.create(dailyBudgetQueries=100, concurrencyCap=20)
        answers = await asyncio.gather(
            *(world.send("acme/echo", by=by) for by in ("carol", "dave") for _ in range(100))
        )
        states = [state(answer) for answer in answers]
        assert (states.count("COMPLETED"), states.count("REJECTED")) == (100, 100)
        reasons = {reason(answer) for answer in answers}
        assert reasons == {"", "budget_exhausted"}
        assert (await block(world, "acme/echo"))["queriesToday"] == 100
        # The next day begins anew.
        world.clock.jump(24 * 3600)
        assert state(await world.send("acme/echo")) == "COMPLETED"


async def test_h_11_under_preset_hub_the_sentence_names_the_budget() -> None:
    async with hub_world() as world:
        await world.create(dailyBudgetQueries=1, profile="hub")
        answers = await asyncio.gather(*(world.send("acme/echo") for _ in range(3)))
        answers.append(await world.send("acme/echo"))
        found = [answer.json()["result"] for answer in answers]
        tasks = [result.get("task", result) for result in found]
        failed = [task for task in tasks if task["status"]["state"].endswith("FAILED")]
        assert len(failed) == 3
        for task in failed:
            (part,) = task["status"]["message"]["parts"]
            assert part["text"] == "agent @acme/echo hit its daily budget (1)"


async def test_a_changed_budget_holds_for_the_next_message() -> None:
    async with hub_world() as world:
        agent = await world.create(dailyBudgetQueries=2)
        for _ in range(2):
            assert state(await world.send("acme/echo")) == "COMPLETED"
        assert state(await world.send("acme/echo")) == "REJECTED"
        await change(world, agent, dailyBudgetQueries=3)
        assert state(await world.send("acme/echo")) == "COMPLETED"
        for budget in (1, 0):
            await change(world, agent, dailyBudgetQueries=budget)
            for _ in range(2):
                refused = await world.send("acme/echo")
                assert (state(refused), reason(refused)) == ("REJECTED", "budget_exhausted")
        await change(world, agent, dailyBudgetQueries=4)
        assert state(await world.send("acme/echo")) == "COMPLETED"
        answer = await world.call(
            "PATCH", f"/agents/{agent['id']}", {"limits": {"dailyBudgetQueries": -1}}
        )
        assert answer.status == 400
        assert b"dailyBudgetQueries" in answer.body


async def test_a_clock_that_is_set_back_opens_no_second_budget() -> None:
    async with hub_world() as world:
        await world.create(dailyBudgetQueries=1)
        assert state(await world.send("acme/echo")) == "COMPLETED"
        world.clock.jump(24 * 3600)
        assert state(await world.send("acme/echo")) == "COMPLETED"
        world.clock.jump(-24 * 3600)
        assert state(await world.send("acme/echo")) == "REJECTED"
        world.clock.jump(24 * 3600)
        assert state(await world.send("acme/echo")) == "REJECTED"


async def test_budgets_of_callers_and_credentials() -> None:
    async with hub_world() as world:
        agent = await world.create(limits={"dailyBudgetPerCaller": 1})
        for by in ("carol", "dave"):
            assert state(await world.send("acme/echo", by=by)) == "COMPLETED"
            refused = await world.send("acme/echo", by=by)
            assert reason(refused) == "budget_exhausted"
            assert text(refused).startswith("Your daily budget for agent @acme/echo is used up (1")
        # Refused messages took nothing from the budget of the agent.
        assert (await block(world, "acme/echo"))["queriesToday"] == 2
        await change(world, agent, dailyBudgetPerCaller=None, dailyBudgetPerToken=1)
        assert state(await world.send("acme/echo")) == "COMPLETED"
        assert "this credential" in text(await world.send("acme/echo"))


async def test_a_rate_holds_for_each_caller_and_window() -> None:
    async with hub_world() as world:
        await world.create(limits={"ratePerCaller": 2, "rateWindowS": 60})
        wait_s = 0
        for by in ("carol", "dave"):
            answers = await asyncio.gather(*(world.send("acme/echo", by=by) for _ in range(3)))
            assert sorted(map(state, answers)) == ["COMPLETED", "COMPLETED", "REJECTED"]
            (refused,) = [answer for answer in answers if state(answer) == "REJECTED"]
            assert reason(refused) == "rate_limited"
            message = refused.json()["result"]["task"]["status"]["message"]
            wait_s = message["metadata"]["retryAfterSeconds"]
            assert 0 < wait_s <= 60
        world.clock.jump(wait_s)
        assert state(await world.send("acme/echo")) == "COMPLETED"


async def test_a_refused_message_does_not_count_for_the_rate() -> None:
    async with hub_world() as world:
        agent = await world.create(dailyBudgetQueries=0, limits={"ratePerCaller": 1})
        for _ in range(3):
            assert reason(await world.send("acme/echo")) == "budget_exhausted"
        await change(world, agent, dailyBudgetQueries=9)
        assert state(await world.send("acme/echo")) == "COMPLETED"
        assert reason(await world.send("acme/echo")) == "rate_limited"


async def test_a_refusal_as_an_error_says_when_to_try_again() -> None:
    async with hub_world(
        agents={"demo/echo": ECHO | {"overflow": "error", "limits": {"daily_budget_queries": 1}}}
    ) as world:
        assert state(await world.send("demo/echo", by="operator")) == "COMPLETED"
        answer = await world.send("demo/echo", by="operator")
        assert answer.status == 429
        wait_s = int(answer.headers["retry-after"])
        assert 0 < wait_s <= 24 * 3600
        before = day_of(world.clock.now_ms())
        world.clock.jump(wait_s)
        assert day_of(world.clock.now_ms()) > before
        assert state(await world.send("demo/echo", by="operator")) == "COMPLETED"


async def test_the_rate_of_the_hub_is_for_agents_without_one() -> None:
    async with hub_world(hub={"rate_per_caller": 1}, agents={"demo/echo": ECHO}) as world:
        await world.create(limits={"ratePerCaller": 2})
        for handle, rate in (("demo/echo", 1), ("acme/echo", 2)):
            answers = [await world.send(handle, by="operator") for _ in range(3)]
            assert [reason(answer) for answer in answers].count("") == rate


def test_limits_without_the_hub_are_an_error() -> None:
    document = {"agents": {"demo/echo": ECHO | {"limits": {}}}}
    with pytest.raises(ConfigError, match=r"\[hub\]"):
        from_document(document, environment={})


def test_two_limits_of_concurrency_are_an_error() -> None:
    agent = ECHO | {"limits": {"concurrency_cap": 2}, "max_concurrency": 3}
    with pytest.raises(ConfigError, match="concurrency_cap"):
        from_document({"hub": {}, "agents": {"demo/echo": agent}}, environment={})


async def say(world: HubWorld, handle: str, text: str, *, by: str) -> Any:
    """The task that a message with this text makes."""
    body = rpc_body().replace(b"hello", text.encode())
    headers = {"Authorization": f"Bearer {by}", "Content-Type": "application/json"}
    answer = await world.http.send(Http(path=RPC.format(handle), headers=headers, body=body))
    result = answer.json()["result"]
    return result.get("task", result)


async def test_h_11_h_26_another_caller_is_told_that_the_agent_is_busy() -> None:
    async with hub_world() as world:
        agent = await world.create(profile="hub", backend={"kind": "scripted"})
        async with asyncio.TaskGroup() as group:
            driver = group.create_task(say(world, "acme/echo", "hang", by="carol"))
            await settle()
            refused = await say(world, "acme/echo", "say hi", by="dave")
            assert refused["status"]["state"].endswith("FAILED")
            (part,) = refused["status"]["message"]["parts"]
            assert part["text"] == "agent is processing a turn for another caller"
            # A message that was refused is not a query.
            assert (await row(world, agent))["queriesToday"] == 1
            await world.clock.advance(61)
        assert driver.result()["status"]["state"].endswith("FAILED")
        done = await say(world, "acme/echo", "say hi", by="dave")
        assert done["status"]["state"].endswith("COMPLETED")


async def test_the_claim_and_the_cap_are_limits_of_an_agent() -> None:
    limits = {"concurrencyCap": 2, "claim": True, "busy": "fail"}
    async with hub_world() as world:
        agent = await world.create(
            limits=limits, backend={"kind": "scripted"}, settings={"task_deadline_s": 30}
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(say(world, "acme/echo", "wait a", by="carol"))
            await settle()
            # The first is at its cap, and the other one meets its claim.
            for by in ("carol", "dave"):
                refused = await say(world, "acme/echo", "say hi", by=by)
                assert refused["status"]["message"]["metadata"]["reason"] == "busy"
            # From now on others may call it at the same time.
            await change(world, agent, claim=False, concurrencyCap=3)
            done = await say(world, "acme/echo", "say hi", by="dave")
            assert done["status"]["state"].endswith("COMPLETED")
            await change(world, agent, busy="wait", waitS=1.5, concurrencyCap=2)
            waiting = group.create_task(say(world, "acme/echo", "say hi", by="dave"))
            await settle()
            await world.clock.advance(2)
            assert (await waiting)["status"]["message"]["metadata"]["reason"] == "busy"
            await world.clock.advance(60)
