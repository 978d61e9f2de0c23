"""Nodes that share one store, each with its tokens and its authenticator."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, cast

from trunkline.hub.token_authenticator import TokenAuthenticator
from trunkline.hub.token_values import Style
from trunkline.hub.tokens import Tokens
from trunkline.model.errors import StoreUnusable
from trunkline.model.principal import Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.store import Store
from trunkline.runtime.record_changes import RecordChanges
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock
from trunkline.testing.passing_store import PassingStore

T = TypeVar("T")

_counter = itertools.count(1)


def random_hex() -> str:
    """Different each time, also in the digits that lists show."""
    return f"{next(_counter):06d}{'0' * 34}"


class CountingStore(PassingStore):
    """Counts its calls, and does not answer while it is cut off."""

    calls = 0
    is_cut = False
    # Called once, after the store has answered and before the caller gets the answer.
    after_call: Callable[[], Awaitable[None]] | None = None

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        if self.is_cut:
            raise StoreUnusable("cut off")
        result = await super()._pass_on(call)
        if self.after_call is not None:
            after, self.after_call = self.after_call, None
            await after()
        return result


class Node:
    def __init__(self, inner: Store, clock: FakeClock, *, style: Style, max_held: int) -> None:
        self.store = CountingStore(inner)
        self.changes = RecordChanges(clock, feature="hub")
        self.tokens = Tokens(self.changes, clock=clock, style=style, random_hex=random_hex)
        self.authenticator = TokenAuthenticator(
            self.tokens, self.changes, clock=clock, max_held=max_held, max_refused=3
        )

    async def open(self, *, is_shared: bool) -> None:
        await self.changes.open(cast("Store", self.store), is_shared=is_shared, tell=lambda: None)
        self.authenticator.start()

    async def close(self) -> None:
        await self.authenticator.close()
        await self.changes.close()

    async def principal(self, token: str) -> Principal | None:
        """As `Access` asks: memory first."""
        headers = bearer(token)
        return self.authenticator.known(headers) or await self.authenticator.identify(headers)

    def knows(self, token: str) -> bool:
        return self.authenticator.known(bearer(token)) is not None


def bearer(token: str) -> Headers:
    return {b"authorization": b"Bearer " + token.encode()}


@asynccontextmanager
async def open_nodes(
    clock: FakeClock,
    count: int = 1,
    *,
    style: Style = "trunkline",
    max_held: int = 100,
) -> AsyncIterator[list[Node]]:
    """Several nodes share the store, and hear no notices."""
    inner = MemoryStore(clock)
    await inner.open()
    nodes = [Node(inner, clock, style=style, max_held=max_held) for _ in range(count)]
    for node in nodes:
        await node.open(is_shared=count > 1)
    try:
        yield nodes
    finally:
        for node in nodes:
            node.store.is_cut = False
            await node.close()
