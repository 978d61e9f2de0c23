"""Authenticators beside the API keys, on every binding."""

import asyncio

import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import V10, over, refused
from tests.bindings.world import HANDLE, World, open_world

from trunkline.model.errors import StoreUnusable
from trunkline.model.principal import EVERYTHING, Grant, Principal
from trunkline.ports.authenticator import Headers

CAROL = Principal(id="tokens:carol", grants=EVERYTHING, token="tk_12", tenant="acme")
TOKEN = "a-token-that-nobody-may-see"


class Tokens:
    """Asks for every request whether it may answer."""

    def __init__(self, principal: Principal = CAROL) -> None:
        self.principal = principal
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    def known(self, headers: Headers) -> Principal | None:
        return None

    async def identify(self, headers: Headers) -> Principal | None:
        if headers.get(b"authorization") != f"Bearer {TOKEN}".encode():
            return None
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return self.principal


async def test_its_principal_owns_its_tasks(dialect: str) -> None:
    async with open_world(authenticators=[Tokens()]) as world:
        carol, alice = world.client(dialect, TOKEN), world.client(dialect)
        task = await carol.run("say hi")
        assert world.agent.turns[-1].principal == "tokens:carol"
        assert await carol.get(task["id"]) == task
        with refused("TASK_NOT_FOUND"):
            await alice.get(task["id"])


@over(*V10)
async def test_a_principal_of_a_tenant_is_in_no_other(dialect: str) -> None:
    async with open_world(authenticators=[Tokens()]) as world:
        task = await world.client(dialect, TOKEN).run("say hi")
        assert await world.client(dialect, TOKEN, tenant="acme").get(task["id"]) == task
        with refused("INVALID_PARAMS"):
            await world.client(dialect, TOKEN, tenant="globex").get(task["id"])


@pytest.mark.parametrize("error", [RuntimeError(TOKEN), StoreUnusable(TOKEN), TimeoutError(TOKEN)])
async def test_one_that_fails_asks_for_another_try(
    dialect: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Tokens()
    broken.error = error
    async with open_world(authenticators=[broken]) as world:
        carol = world.client(dialect, TOKEN)
        answer = await carol.http.send(carol.request("ListTasks", {}))
        assert answer.headers["retry-after"] == "5"
        with refused("UNAVAILABLE"):
            carol.body_of(answer)
        assert TOKEN.encode() not in answer.body
        assert TOKEN not in caplog.text
        # Others do not notice, and neither does the caller once it works again.
        await world.client(dialect).run("say hi")
        broken.error = None
        await carol.run("say hi")


async def test_one_that_waits_delays_nobody_else(dialect: str) -> None:
    slow = Tokens()
    slow.answers.clear()
    async with open_world(authenticators=[slow]) as world:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(world.client(dialect, TOKEN).run("say late"))
            for _ in range(5):
                await world.client(dialect).run("say hi")
            assert not waiting.done()
            slow.answers.set()
        assert waiting.result()["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_limited_principal_sees_no_figures() -> None:
    limited = Principal(id="tokens:dan", grants=(Grant(HANDLE),))
    async with open_world(authenticators=[Tokens(limited)]) as world:
        assert await _figures(world, TOKEN) == 403
        assert await _figures(world, "alice-has-a-long-key") == 200


async def _figures(world: World, key: str) -> int:
    request = Http(method="GET", path="/metrics", headers={"authorization": f"Bearer {key}"})
    return (await world.http.send(request)).status
