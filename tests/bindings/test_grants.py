"""Keys that may call some agents, or some operations of them."""

import pytest
from tests.bindings.cases import refused
from tests.bindings.clients import OPERATIONS, PUSH, message
from tests.bindings.shapes import Json
from tests.bindings.test_operations import PARAMS
from tests.bindings.world import HANDLE, open_world

from trunkline.settings.agent_card import ExtendedCardSettings

CARD = ExtendedCardSettings(description="More")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_operation_needs_a_grant(dialect: str, operation: str) -> None:
    """Before anything is looked up: a task that exists is denied like one that does not."""
    others = tuple(name for name in OPERATIONS if name != operation)
    async with open_world(grants={"bob": {HANDLE: others}}, extended_card=CARD) as world:
        alice, bob = world.client(dialect), world.client(dialect, "bob")
        own = await alice.run("ask which?")
        turns = len(world.agent.turns)
        answers = []
        for task_id in ("made-up", own["id"]):
            params = PARAMS.get(operation, {"id": task_id})
            answer = await bob.http.send(bob.request(operation, params))
            answers.append(answer.body)
            # No agent offers push notifications yet.
            reason = "PUSH_NOTIFICATION_NOT_SUPPORTED" if operation in PUSH else "PERMISSION_DENIED"
            with refused(reason) as denied:
                bob.body_of(answer)
            if operation not in PUSH:
                assert f"may not call {operation} of the agent {HANDLE}" in denied.value.message
        assert answers[0] == answers[1]
        assert len(world.agent.turns) == turns


async def test_a_granted_operation_works(dialect: str) -> None:
    grants = {"bob": {HANDLE: ("SendMessage", "GetTask")}}
    async with open_world(grants=grants) as world:
        bob = world.client(dialect, "bob")
        task = await bob.run("say hi")
        assert await bob.get(task["id"]) == task
        with refused("PERMISSION_DENIED"):
            await bob.list()
        with refused("PERMISSION_DENIED"):
            async with bob.stream(message("say hi")):
                pass
        # A key without grants is not limited.
        await world.client(dialect).list()


async def test_an_agent_that_is_not_granted_is_closed(dialect: str) -> None:
    agents: dict[str, Json] = {HANDLE: {}, "test/other": {}, "acme/third": {}}
    async with open_world(grants={"bob": {"test/*": ("*",)}}, agents=agents) as world:
        await world.client(dialect, "bob").run("say hi")
        await world.client(dialect, "bob", agent="test/other").run("say hi")
        third = world.client(dialect, "bob", agent="acme/third")
        with refused("PERMISSION_DENIED") as denied:
            await third.run("say hi")
        assert "may not call the agent acme/third" in denied.value.message
        assert not world.agent_of("acme/third").turns


async def test_a_key_with_no_grants_at_all_may_do_nothing(dialect: str) -> None:
    async with open_world(grants={"bob": {}}) as world:
        with refused("PERMISSION_DENIED"):
            await world.client(dialect, "bob").list()
