"""Agents for nodes that are killed: each turn writes a line when it begins and when it ends.

The file outlives the processes, so it shows a turn that ran twice, or beside another one of its
context.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from trunkline import agent

_LOG = os.environ["TURN_LOG"]


def _write(what: str, kind: str, turn: Any) -> None:
    words = (what, time.monotonic_ns(), os.getpid(), kind, turn.task_id, turn.message.message_id)
    log = os.open(_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    # One write in append mode keeps the lines of several processes apart.
    os.write(log, f"{' '.join(map(str, words))}\n".encode())
    os.close(log)


async def _play(kind: str, turn: Any) -> AsyncIterator[Any]:
    """`COUNT PAUSE` pieces of text with a pause before each, then perhaps a question."""
    _write("begin", kind, turn)
    try:
        count, pause_s, *then = turn.text.split()
        for number in range(int(count)):
            await asyncio.sleep(float(pause_s))
            yield f"{number} "
        if then:
            yield turn.ask("And now?")
    finally:
        _write("end", kind, turn)


@agent
async def effects(turn: Any) -> AsyncIterator[Any]:
    async for output in _play("effects", turn):
        yield output


@agent(pure=True)
async def pure(turn: Any) -> AsyncIterator[Any]:
    async for output in _play("pure", turn):
        yield output


@agent
async def retrying(turn: Any) -> AsyncIterator[Any]:
    async for output in _play("retrying", turn):
        yield output
