"""`TaskPages`: pages of the tasks of several stores, merged into one list.

Each store has its own order, the most recent status first, and its own place in it. The token of a
page has the place in every store. A task whose status changes while pages are read moves to the top
of the list; all others are read exactly once.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.errors import InvalidParams
from trunkline.ports.store import OperatorQuery, StoredTask, TaskPage
from trunkline.ports.task_places import TaskPlace

# Behind every task of a store.
_END: Final = (-(1 << 63), -(1 << 63))

# Where the next page begins in a store, by its name.
Position: TypeAlias = Mapping[str, tuple[int, int]]


class _Token(Struct, frozen=True, array_like=True):
    # A check sum of the filters.
    filters: int
    places: dict[str, tuple[int, int]]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Token).decode


class MergedPage(Struct, frozen=True):
    tasks: Sequence[tuple[TaskPlace, StoredTask]]
    # Of all pages.
    total: int
    # Empty on the last page.
    token: str


async def merged_page(
    places: Sequence[TaskPlace], query: OperatorQuery, token: str, filters: Sequence[str]
) -> MergedPage:
    """`filters` are what the client asked for; a token is good for the same ones. Raises
    InvalidParams and StoreError."""
    position = _read(token, filters)
    pages: list[tuple[TaskPlace, TaskPage]] = []
    for place in places:
        after = position.get(place.name, query.after)
        pages.append((place, await place.store.list_all(replace(query, after=after))))
    found = [
        (task.status_ms, -order, -rank, place, task)
        for order, (place, page) in enumerate(pages)
        for rank, task in enumerate(page.tasks)
    ]
    found.sort(key=lambda each: each[:3], reverse=True)
    taken = [(place, task) for *_, place, task in found[: query.limit]]
    count: dict[str, int] = {}
    for place, _ in taken:
        count[place.name] = count.get(place.name, 0) + 1
    following: dict[str, tuple[int, int]] = {}
    has_more = False
    for place, page in pages:
        taken_here = count.get(place.name, 0)
        if taken_here == len(page.tasks):
            # All that was read: the place where the store goes on, or its end.
            following[place.name] = page.next or _END
            has_more = has_more or page.next is not None
            continue
        has_more = True
        if taken_here:
            following[place.name] = page.places[taken_here - 1]
        elif place.name in position:
            following[place.name] = position[place.name]
    total = sum(page.total for _, page in pages)
    return MergedPage(taken, total, _written(following, filters) if has_more else "")


def _written(places: dict[str, tuple[int, int]], filters: Sequence[str]) -> str:
    data = _encode(_Token(_sum(filters), places))
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read(token: str, filters: Sequence[str]) -> Position:
    if not token:
        return {}
    try:
        found = _decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise InvalidParams.at("pageToken", "is not from an answer of this address") from None
    if any(not -(1 << 63) <= each < 1 << 63 for place in found.places.values() for each in place):
        raise InvalidParams.at("pageToken", "is not from an answer of this address")
    if found.filters != _sum(filters):
        raise InvalidParams.at("pageToken", "was given out for other filters")
    return found.places


def _sum(filters: Sequence[str]) -> int:
    return zlib.crc32("\0".join(filters).encode(errors="replace"))
