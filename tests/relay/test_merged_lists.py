"""One list of what waits at the relay and what the agent has, page by page."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct

from trunkline.model.calls import ListTasksRequest
from trunkline.model.errors import InvalidParams
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import TaskState
from trunkline.relay.mailbox.merged_lists import AgentPage, is_own_token, matching, merged
from trunkline.relay.mailbox.records import Owner
from trunkline.relay.mailbox.waiting import Waiting
from trunkline.runtime.service import ListAnswer

START_MS = 1_750_000_000_000


class AgentList(Struct):
    """The list of an agent: its tasks and their times, by keys that never change."""

    times: dict[int, int]
    asked: int = 0

    async def ask(self, size: int, token: str) -> AgentPage:
        self.asked += 1
        order = sorted(((time, key) for key, time in self.times.items()), reverse=True)
        after = tuple(int(each) for each in token.split(".")) if token else (2**62, 0)
        rest = [each for each in order if each < after]
        page, more = rest[:size], rest[size:]
        return AgentPage(
            tasks=tuple(Raw(task_json(f"agent-{key}", time)) for time, key in page),
            next_page_token=f"{page[-1][0]}.{page[-1][1]}" if more else "",
            total_size=len(order),
        )


def task_json(id: str, time: int) -> bytes:
    return msgspec.json.encode(
        {"id": id, "status": {"timestamp": format_timestamp(START_MS + time)}}
    )


def waiting(number: int, time: int, *, id: str = "", context: str = "c") -> Waiting:
    return Waiting(
        number=number,
        version=1,
        size=1,
        owner=Owner("alice", ""),
        task_id=id or f"relay-{number}",
        context_id=context,
        created_ms=START_MS + time,
        ends_ms=START_MS + 10**9,
        idempotency_key="",
        message_id="",
        digest="",
        attempts=0,
        is_unsure=False,
    )


async def show(each: Waiting) -> bytes:
    return task_json(each.task_id, each.created_ms - START_MS)


def ids(answer: ListAnswer) -> list[str]:
    return [msgspec.json.decode(task)["id"] for task in answer.tasks]


async def walk(own: list[Waiting], agent: AgentList | None, size: int, **filters: Any) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    token = ""
    while True:
        request = ListTasksRequest(page_size=size, page_token=token, **filters)
        answer = await merged(request, own, ask=None if agent is None else agent.ask, show=show)
        assert len(answer.tasks) <= size
        assert answer.total_size == len(own) + (0 if agent is None else len(agent.times))
        found += ids(answer)
        token = answer.next_page_token
        if not token:
            return found
        assert len(answer.tasks) == size


TIMES = st.lists(st.integers(0, 20), max_size=12)


@given(own=TIMES, theirs=TIMES, size=st.integers(1, 7))
async def test_every_task_is_listed_once_and_in_order(
    own: list[int], theirs: list[int], size: int
) -> None:
    letters = [waiting(number, time) for number, time in enumerate(own, 1)]
    agent = AgentList(dict(enumerate(theirs)))
    times = {each.task_id: each.created_ms - START_MS for each in letters}
    times |= {f"agent-{key}": time for key, time in agent.times.items()}
    found = await walk(letters, agent, size)
    assert sorted(found) == sorted(times)
    told = [times[id] for id in found]
    assert told == sorted(told, reverse=True)


@given(own=TIMES, size=st.integers(1, 5))
async def test_what_waits_is_listed_alone_while_the_agent_is_away(
    own: list[int], size: int
) -> None:
    letters = [waiting(number, time) for number, time in enumerate(own, 1)]
    order = sorted(letters, key=lambda each: (each.created_ms, each.number), reverse=True)
    assert await walk(letters, None, size) == [each.task_id for each in order]


@given(
    own=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    theirs=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    size=st.integers(1, 4),
    moved=st.lists(st.integers(0, 7), max_size=6),
)
async def test_tasks_that_do_not_change_are_listed_once_whatever_else_happens(
    own: list[int], theirs: list[int], size: int, moved: list[int]
) -> None:
    """Between two pages letters are delivered, and tasks of the agent go on."""
    letters = {number: waiting(number, time) for number, time in enumerate(own, 1)}
    agent = AgentList(dict(enumerate(theirs)))
    calm = {f"relay-{number}" for number in letters} | {f"agent-{key}" for key in agent.times}
    found: list[str] = []
    token, now = "", 100
    while True:
        request = ListTasksRequest(page_size=size, page_token=token)
        answer = await merged(request, [*letters.values()], ask=agent.ask, show=show)
        found += ids(answer)
        token = answer.next_page_token
        if not token:
            break
        if moved:
            change = moved.pop()
            now += 1
            if change in letters:
                # It is a task of the agent from now on.
                del letters[change]
                calm.discard(f"relay-{change}")
                agent.times[1000 + change] = now
            elif change in agent.times:
                calm.discard(f"agent-{change}")
                agent.times[change] = now
    for id in calm:
        assert found.count(id) == 1


async def test_a_task_at_both_is_listed_once() -> None:
    letters = [waiting(1, 5), waiting(2, 3, id="agent-0")]
    agent = AgentList({0: 3})
    answer = await merged(ListTasksRequest(), letters, ask=agent.ask, show=show)
    assert ids(answer) == ["relay-1", "agent-0"]
    assert answer.total_size == 2


async def test_an_agent_whose_list_changes_while_it_is_asked_is_asked_again() -> None:
    class Restless(AgentList):
        async def ask(self, size: int, token: str) -> AgentPage:
            page = await super().ask(size, token)
            if self.asked == 1:
                self.times[0] = 50
            return page

    agent = Restless({0: 1, 1: 9, 2: 8})
    answer = await merged(ListTasksRequest(page_size=2), [waiting(1, 10)], ask=agent.ask, show=show)
    assert ids(answer) == ["agent-0", "relay-1"]


async def test_a_letter_that_goes_meanwhile_is_left_out() -> None:
    async def gone(each: Waiting) -> bytes | None:
        return None if each.number == 1 else await show(each)

    letters = [waiting(1, 1), waiting(2, 2)]
    answer = await merged(ListTasksRequest(), letters, ask=None, show=gone)
    assert (ids(answer), answer.total_size) == (["relay-2"], 1)


async def test_the_agents_own_token_goes_on_once_nothing_else_is_left() -> None:
    agent = AgentList(dict.fromkeys(range(5), 1))
    first = await merged(ListTasksRequest(page_size=2), [waiting(1, 9)], ask=agent.ask, show=show)
    assert not is_own_token(first.next_page_token)
    page = await agent.ask(10, first.next_page_token)
    assert len(page.tasks) == 4


def test_filters_count_for_what_waits() -> None:
    letters = [waiting(1, 1000, context="a"), waiting(2, 2000, context="b")]

    def found(**filters: Any) -> list[int]:
        return [each.number for each in matching(ListTasksRequest(**filters), letters)]

    assert found() == [2, 1]
    assert found(context_id="a") == [1]
    assert found(status=TaskState.SUBMITTED) == [2, 1]
    assert found(status=TaskState.WORKING) == []
    assert found(status_timestamp_after=format_timestamp(START_MS + 1500)) == [2]


@pytest.mark.parametrize("token", ["relay.", "relay.!", "relay.bm8", "relay.W10x", "relay.ö"])
async def test_a_token_that_the_relay_never_gave(token: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        await merged(ListTasksRequest(page_token=token), [], ask=None, show=show)
    assert caught.value.violations[0].field == "pageToken"


async def test_a_token_is_good_for_its_filters() -> None:
    letters = [waiting(1, 1), waiting(2, 2)]
    page = await merged(ListTasksRequest(page_size=1), letters, ask=None, show=show)
    other = ListTasksRequest(page_size=1, page_token=page.next_page_token, context_id="c")
    with pytest.raises(InvalidParams):
        await merged(other, letters, ask=None, show=show)
