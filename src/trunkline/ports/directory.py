"""`Directory`: the published agents, which come and go while the gateway runs."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct

from trunkline.model.card import AgentCard


class Listing(Struct, frozen=True, kw_only=True):
    """A published agent, as others may see it."""

    handle: str
    card: AgentCard
    # The addresses of its card and of JSON-RPC, as paths of the gateway.
    card_path: str
    jsonrpc_path: str
    # The address of its card as others reach it.
    card_url: str
    # What a registry says of the agent; None for one of the configuration.
    standing: "Standing | None" = None
    # The address of HTTP+JSON; empty for an agent that is not served over it.
    rest_path: str = ""
    # The versions of A2A in which it can be called.
    versions: tuple[str, ...] = ()
    # The kind of its backend, which is for operators.
    backend_kind: str = ""


class Load(Struct, frozen=True):
    """The turns of an agent at this gateway."""

    running: int
    waiting: int


class Standing(Protocol):
    """What a registry says of an agent that it has published, at the moment of a request."""

    # Whether callers that no grant lets reach the agent must not learn that it exists.
    @property
    def is_private(self) -> bool: ...

    # Whether all who are signed in may call it without a grant.
    @property
    def is_open(self) -> bool: ...

    # Whether lists name the agent to everyone.
    @property
    def is_listed(self) -> bool: ...

    @property
    def is_fresh(self) -> bool:
        """Whether memory is known to say what the store says. Every request asks."""
        ...

    async def renew(self) -> None:
        """Ask the store. Raises RouteNotFound for an agent that is not published any more, and
        StoreError."""
        ...

    async def card_block(self) -> tuple[str, bytes] | None:
        """The name and the JSON of a member to add to the agent's card."""
        ...


class Directory(Protocol):
    async def publish(
        self,
        handle: str,
        table: Mapping[str, Any],
        *,
        replace: bool = False,
        standing: Standing | None = None,
    ) -> None:
        """Publish an agent. `table` has the keys of `[agents."owner/slug"]` in the configuration;
        `${NAME}` in it is plain text. `standing` is asked at each request.

        When this returns, the backend is open, the unfinished tasks of the handle continue, and
        its addresses answer. With `replace`, it takes the place of an agent of this handle: new
        turns and those that wait run on the new one, running turns finish on the old one. Raises
        ConfigError, AgentExists or StoreError; nothing is changed then.
        """
        ...

    async def withdraw(self, handle: str, *, grace_s: float) -> None:
        """Withdraw an agent. Its addresses answer at once like those of an unknown agent. Running
        turns may finish for `grace_s`; then they end as when the gateway stops. Tasks stay in the
        store, and continue when the handle is published again.

        Returns when the backend is closed. Raises AgentNotPublished.
        """
        ...

    async def begin_withdrawal(self, handle: str, *, grace_s: float) -> "asyncio.Future[None]":
        """The same, and it returns when the addresses are gone. The result is done when the backend
        is closed."""
        ...

    def publishing_many(self) -> AbstractAsyncContextManager[None]:
        """Within it, an agent is published without its unfinished tasks; at its end those of all
        agents continue. For the start of a gateway with thousands of agents."""
        ...

    async def is_online(self, handle: str) -> bool:
        """Whether the agent would get a message now, as far as its backend knows or knew a few
        seconds ago. An agent that is not published is not online."""
        ...

    def find(self, handle: str) -> Listing | None: ...

    def load(self, handle: str) -> Load:
        """The turns of an agent now; none for one that is not published."""
        ...

    def card_json(self, handle: str) -> bytes | None:
        """The card of an agent in the form of 1.0, as it is served; None for one that is not
        published."""
        ...

    def list(self) -> Sequence[Listing]:
        """All published agents, in the order in which they came."""
        ...
