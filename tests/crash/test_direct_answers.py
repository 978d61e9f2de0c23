"""A crash before and after every call of the store while a request with a key is answered without a
task: the agent runs once, and a repeat gets the stored answer or a failed task."""

from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.runtime.stores import STORES
from tests.runtime.world import World, caller, next_morning, said

from trunkline.model.values import Message, TaskState
from trunkline.ports.caller_records import ANSWER
from trunkline.ports.store import Store
from trunkline.runtime.fanout import Reply
from trunkline.runtime.service import TaskAnswer
from trunkline.testing import CrashingStore, settle

INBOUND: dict[str, Any] = {"preset_name": "openclaw-inbound", "list_tasks": "served"}
REQUEST: dict[str, Any] = {"key": "k", "id": "m", "context": "c"}


async def ask_until_crash(
    inner: Store, crash_on: int, when: Literal["before", "after"]
) -> tuple[bool, Message | None, int]:
    """Whether it came to a crash, the answer that the client got, and how often the agent ran."""
    store = CrashingStore(inner, crash_on=crash_on, when=when)
    w = World(store=store, node="one", **INBOUND)

    async def play() -> Message:
        await w.open()
        return await w.ask("say one", **REQUEST)

    asking = w.soon(play())
    while not asking.done() and not store.crashed.is_set():
        await settle()
    has_crashed = store.crashed.is_set()
    answer = asking.result() if asking.done() else None
    await w.vanish()
    return has_crashed, answer, len(w.scripted.turns)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "name", ["memory", "sqlite", pytest.param("json-file", marks=pytest.mark.full)]
)
async def test_every_call(name: str, when: Literal["before", "after"], tmp_path: Path) -> None:
    outcomes: set[str] = set()
    for crash_on in count(1):
        folder = tmp_path / str(crash_on)
        folder.mkdir()
        inner = STORES[name](folder)
        has_crashed, answer, ran = await ask_until_crash(inner, crash_on, when)
        await inner.close()
        left = inner if name == "memory" else STORES[name](folder)
        after = World(store=left, node="two", clock=next_morning(), **INBOUND)
        await after.open()
        request = after.request("say one", id="m", context="c")
        repeat = await after.service.send(after.agent, caller("k"), request)
        runs = ran + len(after.scripted.turns)
        found = await left.records(ANSWER, limit=9)
        if isinstance(repeat, Reply):
            # The answer is stored once, as the client got it.
            assert runs == 1
            assert len(found) == 1
            again = await after.ask("say one", **REQUEST)
            assert answer in (None, again)
            outcomes.add("answered before" if ran else "answered now")
        else:
            assert isinstance(repeat, TaskAnswer)
            task = await after.get((await after.listed())[0].id)
            assert (task.status.state, answer) == (TaskState.FAILED, None)
            assert "was not run again" in said(task)
            assert runs == ran <= 1
            assert found == ()
            outcomes.add("failed")
        await after.close()
        if not has_crashed:
            break
    assert outcomes == {"answered before", "answered now", "failed"}
