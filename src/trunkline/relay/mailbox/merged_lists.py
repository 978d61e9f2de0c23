"""`merged`: one list of tasks of what waits at the relay and what the agent has.

Both are sorted by the time of their status, the most recent first. A page token says where both
continue. The agent's own token continues a list of which nothing at the relay is left.
"""

import base64
import binascii
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from trunkline.model.calls import ListTasksRequest
from trunkline.model.errors import InvalidParams
from trunkline.model.timestamps import parse_timestamp
from trunkline.model.values import TaskState
from trunkline.relay.mailbox.waiting import Waiting
from trunkline.runtime.service import DEFAULT_PAGE_SIZE, ListAnswer, status_from_ms

_MARK: Final = "relay."
# The agent's list may change between two requests for the same page.
_ATTEMPTS: Final = 3


class AgentPage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of the agent's list, as the JSON of A2A 1.0."""

    tasks: tuple[Raw, ...] = ()
    next_page_token: str = ""
    total_size: int = 0


# Takes the size of a page and its token.
Ask: TypeAlias = Callable[[int, str], Awaitable[AgentPage]]
# The JSON of a task for the list; None if it does not wait any more.
Show: TypeAlias = Callable[[Waiting], Awaitable[bytes | None]]


class _Status(Struct):
    timestamp: str = ""


class _Task(Struct):
    id: str = ""
    status: _Status = msgspec.field(default_factory=_Status)


class _Place(Struct, frozen=True, kw_only=True, array_like=True):
    """Where a list continues."""

    filters: int = 0
    # Behind the letter with this time and number; None at the start.
    after: tuple[int, int] | None = None
    # Whether nothing at the relay is left.
    is_relay_done: bool = False
    token: str = ""
    is_agent_done: bool = False
    # How many tasks the agent has, if it is done.
    total: int = 0


_encode = msgspec.json.Encoder().encode
_decode_place = msgspec.json.Decoder(_Place).decode
_decode_task = msgspec.json.Decoder(_Task).decode


def is_own_token(token: str) -> bool:
    return token.startswith(_MARK)


def matching(request: ListTasksRequest, waiting: Sequence[Waiting]) -> list[Waiting]:
    """The letters that the list has, the most recent first. Raises InvalidParams."""
    from_ms = status_from_ms(request.status_timestamp_after)
    if request.status not in (TaskState.UNSPECIFIED, TaskState.SUBMITTED):
        return []
    found = [
        each
        for each in waiting
        if request.context_id in ("", each.context_id)
        and (from_ms is None or each.created_ms >= from_ms)
    ]
    return sorted(found, key=_time, reverse=True)


class _Picked(Struct, frozen=True, kw_only=True):
    """What is on a page: letters, and places in the page of the agent."""

    items: Sequence[Waiting | int]
    page: AgentPage
    # The letters that match and that the agent does not have, on this page or another.
    own: int
    # Those that were not shown on a page before.
    left: int
    # The agent's token behind this page; empty where it has no more.
    token: str
    is_agent_done: bool
    # Whether the agent's list was the same each time it was asked.
    is_certain: bool


async def merged(
    request: ListTasksRequest, waiting: Sequence[Waiting], *, ask: Ask | None, show: Show
) -> ListAnswer:
    """A page of the list; without `ask`, of what waits alone. Raises InvalidParams."""
    place = _place(request)
    size = request.page_size or DEFAULT_PAGE_SIZE
    matches = matching(request, waiting)
    picked = await _pick(place, matches, size, ask)
    for _ in range(_ATTEMPTS - 1):
        if not picked.is_certain:
            picked = await _pick(place, matches, size, ask)
    shown = [each for each in picked.items if not isinstance(each, int)]
    total = picked.own + picked.page.total_size
    following = _Place(
        filters=_filters(request),
        after=_time(shown[-1]) if shown else place.after,
        is_relay_done=len(shown) == picked.left,
        token=picked.token,
        is_agent_done=picked.is_agent_done,
        total=picked.page.total_size if picked.is_agent_done else 0,
    )
    tasks = [
        bytes(picked.page.tasks[each]) if isinstance(each, int) else await show(each)
        for each in picked.items
    ]
    there = tuple(task for task in tasks if task is not None)
    total -= len(tasks) - len(there)
    return ListAnswer(there, _token(following, is_away=ask is None), size, total)


async def _pick(place: _Place, matches: Sequence[Waiting], size: int, ask: Ask | None) -> _Picked:
    page = AgentPage(total_size=place.total)
    is_agent_done = place.is_agent_done
    if ask is not None and not is_agent_done:
        page = await ask(size, place.token)
    theirs = [_decode_task(raw) for raw in page.tasks]
    known = {task.id for task in theirs}
    own = [each for each in matches if each.task_id not in known]
    left = [each for each in own if _is_behind(each, place)]
    items = _merge(left, _times(theirs), size)
    count = sum(isinstance(each, int) for each in items)
    token, is_certain = page.next_page_token, True
    if ask is None:
        token = place.token
    elif count < len(theirs):
        token = place.token
        if count:
            # The token behind a part of a page is that of a smaller page.
            cut = await ask(count, place.token)
            ids = [_decode_task(raw).id for raw in cut.tasks]
            token, is_certain = cut.next_page_token, ids == [task.id for task in theirs[:count]]
    else:
        is_agent_done = is_agent_done or not token
    return _Picked(
        items=items,
        page=page,
        own=len(own),
        left=len(left),
        token=token,
        is_agent_done=is_agent_done,
        is_certain=is_certain,
    )


def _merge(own: Sequence[Waiting], theirs: Sequence[int], size: int) -> list[Waiting | int]:
    """The first `size` of both: letters, and places in the page of the agent."""
    picked: list[Waiting | int] = []
    i = j = 0
    while len(picked) < size and (i < len(own) or j < len(theirs)):
        if j == len(theirs) or (i < len(own) and own[i].created_ms >= theirs[j]):
            picked.append(own[i])
            i += 1
        else:
            picked.append(j)
            j += 1
    return picked


def _times(tasks: Sequence[_Task]) -> list[int]:
    """The times of their status; one that has none, or comes too late, has that before it."""
    times: list[int] = []
    for task in tasks:
        last = times[-1] if times else 2**62
        try:
            times.append(min(last, parse_timestamp(task.status.timestamp)))
        except (ValueError, OverflowError):
            times.append(last)
    return times


def _time(waiting: Waiting) -> tuple[int, int]:
    return waiting.created_ms, waiting.number


def _is_behind(waiting: Waiting, place: _Place) -> bool:
    if place.is_relay_done:
        return False
    return place.after is None or _time(waiting) < place.after


def _token(place: _Place, *, is_away: bool) -> str:
    if place.is_relay_done and (place.is_agent_done or is_away):
        return ""
    if place.is_relay_done and place.token:
        return place.token
    return _MARK + base64.urlsafe_b64encode(_encode(place)).decode().rstrip("=")


def _place(request: ListTasksRequest) -> _Place:
    """Where the page begins. Raises InvalidParams."""
    token = request.page_token
    if not token:
        return _Place()
    if not is_own_token(token):
        return _Place(token=token, is_relay_done=True)
    text = token.removeprefix(_MARK)
    try:
        place = _decode_place(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise InvalidParams.at(
            "pageToken", "is not a token that this agent gave out; start without one"
        ) from None
    if place.filters != _filters(request):
        raise InvalidParams.at(
            "pageToken", "was given out for other filters; start without one or keep the filters"
        )
    return place


def _filters(request: ListTasksRequest) -> int:
    parts = (request.context_id, request.status, request.status_timestamp_after)
    return zlib.crc32("\0".join(parts).encode())
