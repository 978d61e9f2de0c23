"""A queue as long as it may get: every place is known, and every task gets its turn."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.runtime.stores import STORES
from tests.runtime.world import World, place, world

from trunkline.model.outputs import Final, Output
from trunkline.model.values import Task, TaskState
from trunkline.ports.backend import TurnRequest
from trunkline.testing import Gates

# Long runs of lines that other tests cover: traced, they take more than twice as long.
pytestmark = pytest.mark.no_cover

LONGEST = 9999


class Recorder:
    """An agent that notes the tasks of all its turns."""

    may_reply_directly = False
    is_pure = False
    can_resume = False

    def __init__(self, began: list[str], gates: Gates) -> None:
        self._began = began
        self._gates = gates

    async def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        self._began.append(turn.task_id)
        if turn.message.parts[0].text == "wait":
            await self._gates.wait("a")
        yield Final()

    async def cancel(self, run_id: str) -> None:
        raise AssertionError("nothing that runs is canceled")

    async def close(self) -> None:
        pass


async def pages(w: World) -> list[Task]:
    """All tasks of the context that wait."""
    found: list[Task] = []
    token = ""
    while True:
        page, token = await w.page(
            context_id="c", status=TaskState.SUBMITTED, page_size=100, page_token=token
        )
        found += page
        if not token:
            return found


@pytest.mark.parametrize(
    "store", ["memory", "sqlite", pytest.param("json-file", marks=pytest.mark.full)]
)
async def test_d25_d26_d27_d30_ten_thousand_sends_to_one_context(
    store: str, tmp_path: Path
) -> None:
    began: list[str] = []
    gates = Gates()
    async with world(store=STORES[store](tmp_path), backend=Recorder(began, gates)) as w:
        first = await w.submit("wait", context="c")
        await gates.reached("a")
        sends = [w.submit(f"say {number}", context="c") for number in range(LONGEST)]
        queued = await asyncio.gather(*sends)
        # Each answer shows its place; all that came before it were in the queue by then.
        assert [place(task) for task in queued] == list(range(1, LONGEST + 1))
        assert {task.status.state for task in queued} == {TaskState.SUBMITTED}

        refused = await w.send("say too much", context="c")
        assert refused.status.state is TaskState.REJECTED

        listed = await pages(w)
        places = {task.id: place(task) for task in listed}
        assert places == {task.id: number for number, task in enumerate(queued, start=1)}
        assert await w.state(first.id) is TaskState.WORKING

        middle = queued.pop(5000)
        assert (await w.cancel(middle.id)).status.state is TaskState.CANCELED
        assert place(await w.get(queued[4999].id)) == 5000
        assert place(await w.get(queued[5000].id)) == 5001
        assert place(await w.get(queued[-1].id)) == LONGEST - 1
        # There is room for one more, and for no two.
        queued.append(await w.submit("say again", context="c"))
        assert place(queued[-1]) == LONGEST

        gates.open("a")
        follower = await w.follow(queued[-1].id)
        await follower.all()
        assert began == [task.id for task in (first, *queued)]
        assert len(w.runtime.registry) == 0
