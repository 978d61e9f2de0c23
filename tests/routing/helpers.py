"""Agents of the tests that ask, and one that answers when it is told to."""

import asyncio
from collections import defaultdict
from typing import Any

from trunkline.backends.python import Turn


async def asks(turn: Turn) -> str:
    """Ask the helper, without waiting: `TEXT` or `TEXT@TASK`. Says the ids of the call and of its
    task, or why there is none."""
    text, _, task_id = turn.text.partition("@")
    made = await turn.call("acme/helper", text, wait=False, task_id=task_id)
    if made["status"] != "pending":
        return f"{made['status']} {made['error']['code']}"
    return f"{made['correlationId']} {made['taskId']}"


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
