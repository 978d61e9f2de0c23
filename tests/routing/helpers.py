"""Agents of the tests that ask, and one that answers when it is told to."""

import asyncio
from collections import defaultdict
from typing import Any

import msgspec
from msgspec import UNSET
from tests.routing.world import ALICE, CallWorld, until

from trunkline.backends.python import Turn
from trunkline.model.principal import Principal
from trunkline.model.values import Message


async def asks(turn: Turn) -> str:
    """Ask the helper, without waiting: `TEXT` or `TEXT@TASK`. Says the ids of the call and of its
    task, or why there is none."""
    text, _, task_id = turn.text.partition("@")
    made = await turn.call("acme/helper", text, wait=False, task_id=task_id)
    if made["status"] != "pending":
        return f"{made['status']} {made['error']['code']}"
    return f"{made['correlationId']} {made['taskId']}"


async def acts(turn: Turn) -> Any:
    """Use a tool as a model does: its name and its arguments in JSON. Without a tool, say the key
    of the session."""
    asked: dict[str, Any] = msgspec.json.decode(turn.text)
    if "tool" not in asked:
        return {"key": turn.session_key}
    tool = turn._tools[asked.pop("tool")]
    return (await tool.call(asked, turn=turn._request, on_update=lambda _: None)).value


async def use(
    w: CallWorld,
    tool: str,
    *,
    by: str = "caller",
    context: str = "c1",
    principal: Principal = ALICE,
    **arguments: Any,
) -> dict[str, Any]:
    text = msgspec.json.encode({"tool": tool, **arguments}).decode()
    task = await w.send(by, text, context=context, principal=principal)
    answer: Any = task.artifacts[0].parts[0].data
    return answer  # type: ignore[no-any-return]


async def key_of(w: CallWorld, *, context: str = "c1") -> str:
    """The key of a session of the agent that acts."""
    task = await w.send("caller", "{}", context=context)
    answer: Any = task.artifacts[0].parts[0].data
    key: str = answer["key"]
    return key


class Helper:
    """Answers `TEXT` with `about TEXT`, once the gate of that name is open, or at once. `ask TEXT`
    it answers with a question."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = is_open
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._begun: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        # The texts of the turns that have begun.
        self.heard: list[str] = []

    async def answers(self, turn: Turn) -> Any:
        text = turn.text
        self.heard.append(text)
        self._begun[text].set()
        if not self.is_open:
            await self.gates[text].wait()
        if text.startswith("ask "):
            return turn.ask(f"{text[4:]}?")
        if text == "fail":
            return turn.fail("no")
        return f"about {text}"

    async def begun(self, text: str) -> None:
        """Wait until a turn with the text has begun."""
        async with asyncio.timeout(10):
            await self._begun[text].wait()

    def open(self, *texts: str) -> None:
        for text in texts:
            self.gates[text].set()


class Heard:
    """An agent that remembers the messages of its turns, and says the same each time."""

    def __init__(self, says: Any = "heard") -> None:
        self.messages: list[Message] = []
        self.says = says

    async def turn(self, turn: Turn) -> Any:
        self.messages.append(turn.message)
        return self.says

    @property
    def payload(self) -> Any:
        """The call in the last message."""
        (data,) = [part.data for part in self.messages[-1].parts if part.data is not UNSET]
        return data


async def call(w: CallWorld, agent: str = "helper", **options: Any) -> dict[str, Any]:
    return await use(w, "agent_call", agent=f"acme/{agent}", **{"input": "one"} | options)


async def arrived(w: CallWorld, count: int = 1, **session: Any) -> list[dict[str, Any]]:
    """The entries of the session, once there are so many; there are no more then."""
    slug, context = session.pop("slug", "caller"), session.pop("context", "c1")

    async def enough() -> Any:
        found = await w.entries(slug, context, **session)
        return found if len(found) >= count else None

    await until(enough)
    await w.clock.advance(1)
    found = await w.entries(slug, context, **session)
    assert len(found) == count
    return found
