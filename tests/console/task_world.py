"""A gateway with agents in two stores, and callers who watch their tasks."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.bindings.asgi import Answer
from tests.hub.registry_world import HubWorld, hub_world, team

from trunkline.background import next_pass

CODE: Final = """\
import asyncio

from trunkline import agent

@agent
async def echo(turn):
    return turn.text


@agent
async def other(turn):
    return turn.text


@agent
async def stream(turn):
    for number in range(int(turn.text)):
        yield f"{number} "
        if number % 100 == 0:
            await asyncio.sleep(0)


@agent
async def ask(turn):
    if turn.text == "begin":
        return turn.ask("How far?")
    return "far"


@agent
async def wait(turn):
    await turn.canceled()


@agent
async def large(turn):
    return 'say "\\u00e9"\\n' * 60_000


@agent
async def caller(turn):
    found = await turn.call("acme/echo", "from the caller")
    return str(found["output"])
"""
NAMES: Final = ("echo", "other", "stream", "ask", "wait", "large", "caller")


@asynccontextmanager
async def console_world(folder: Path, **tables: Any) -> AsyncIterator[HubWorld]:
    """`acme/other` has a store of its own."""
    agents = team(folder, CODE, *NAMES)
    agents["acme/other"]["store"] = {"kind": "sqlite", "path": str(folder / "other.db")}
    agents["acme/caller"]["may_call"] = ["acme/*"]
    store = {"kind": "sqlite", "path": str(folder / "main.db")}
    async with hub_world(**({"agents": agents, "store": store} | tables)) as world:
        yield world


async def until(condition: Callable[[], bool], *, rounds: int = 200_000) -> None:
    """Wait for work in threads, which the clock does not see."""
    for _ in range(rounds):
        if condition():
            return
        await next_pass()
    raise AssertionError("it did not happen")


async def sent(world: HubWorld, agent: str, text: str, *, by: str) -> Any:
    """The task of a message."""
    answer = await world.ask(f"acme/{agent}", text, by=by)
    assert answer.status == 200, answer.body
    return answer.json()["result"]["task"]


async def get(world: HubWorld, path: str, *, by: str, query: str = "") -> Any:
    answer = await world.call("GET", path, by=by, query=query)
    assert answer.status == 200, answer.body
    return answer.json()


async def ids(world: HubWorld, *, by: str, query: str = "") -> list[str]:
    """The texts of the tasks of one page."""
    return [each["text"] for each in (await get(world, "/tasks", by=by, query=query))["items"]]


def message_of(answer: Answer) -> str:
    return str(answer.json()["error"]["message"])
