"""`TurnToolTokens`: the tokens by which the programs of agents use tools during their turns.

A *tool token* is random text, `tl_tool_` and 40 hexadecimal digits. The main store keeps its
SHA-256 digest, with the turn that it stands for: the session, on whose behalf, and the agents that
led to it. So every node knows the token, and reading the store is not enough to use it.

The record is due a minute after it was last written, and the node that runs the turn writes it
again while the turn lasts. So a token ends a minute after its turn, and also a minute after its
node was killed. Whoever ends the session deletes the record.
"""

import hashlib
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.config.secret import Secret
from trunkline.model.errors import (
    PermissionDenied,
    RecordConflict,
    StoreError,
    TrunklineError,
    Unauthenticated,
)
from trunkline.ports.backend import TurnRequest
from trunkline.ports.call_path import CALL_PATH
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Delete, Key, Put, Record
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Store
from trunkline.ports.tools import LentTools, ToolDefinition
from trunkline.routing.callers import CallingTurn
from trunkline.routing.tools import Action, OnUpdate, unseen
from trunkline.runtime.due_work import DueKind

_log = logging.getLogger("trunkline.routing")

TOOL_TOKEN: Final = "tool-token.1"
# How long a token outlives its turn, for a program that is a little late.
OUTLIVES_TURN_S: Final = 60.0
# How often a turn renews its token: twice may fail.
_RENEW_S: Final = 18.0
_PREFIX: Final = "tl_tool_"
_FORM: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{40}}")
_PAGE: Final = 100
# Turns may end by the hundred.
_WORKERS: Final = 16


class _Lent(Struct, frozen=True, omit_defaults=True):
    """The body of a record."""

    turn: CallingTurn
    tools: tuple[str, ...]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Lent).decode


class ToolAddress(Struct, frozen=True, kw_only=True):
    """Where programs on this machine reach the tools of the gateway."""

    url: str
    # Empty where MCP is not served.
    mcp_url: str = ""


class TurnToolTokens:
    """It implements `ports.tools.LendsTools` and `ports.tools.ToolTokens`."""

    def __init__(
        self,
        *,
        actions: Mapping[str, tuple[ToolDefinition, Action]],
        open_main: Callable[[], Awaitable[Store]],
        clock: Clock,
        wake_in: Callable[[float], None],
        random_hex: Callable[[], str] = lambda: secrets.token_hex(20),
    ) -> None:
        """`wake_in` has due work looked for in the main store after that many seconds."""
        self._actions = actions
        self._open_main = open_main
        self._clock = clock
        self._wake_in = wake_in
        self._random_hex = random_hex
        # None where nothing listens, as in a trial of an agent.
        self.address: ToolAddress | None = None
        self._tasks = BackgroundTasks("tool tokens")

    def due_kinds(self) -> tuple[DueKind, ...]:
        return (DueKind(name=TOOL_TOKEN, handle=_forget, workers=_WORKERS),)

    @asynccontextmanager
    async def lend(
        self, turn: TurnRequest, tools: Sequence[str], *, token: Secret | None = None
    ) -> AsyncIterator[LentTools | None]:
        calling = CallingTurn.of(turn, CALL_PATH.get())
        if calling is None or self.address is None or not tools:
            yield None
            return
        token = token or Secret(f"{_PREFIX}{self._random_hex()}")
        key, body = _key(token.reveal()), _encode(_Lent(calling, tuple(tools)))
        try:
            main = await self._open_main()
            await main.change(_put(key, body, calling.session))
        except TrunklineError as error:
            _log.error(
                "a program gets no tools, because its token could not be stored",
                extra={"agent": turn.agent, "reason": error.message},
            )
            yield None
            return
        renewing = self._tasks.start(self._renew(main, key), name=f"tool token of {turn.run_id}")
        address = self.address
        try:
            yield LentTools(url=address.url, mcp_url=address.mcp_url, token=token)
        finally:
            renewing.cancel()
            await self._write_again(main, key)
            self._wake_in(OUTLIVES_TURN_S)

    async def find(self, token: str) -> "LentProgramTools":
        """Raises Unauthenticated and StoreError."""
        record = None
        if _FORM.fullmatch(token):
            main = await self._open_main()
            record = await main.record(_key(token))
        # Due work deletes tokens that are over, by the clock of the store, which all nodes share.
        # It has begun to delete a record with attempts.
        if record is None or record.attempts:
            raise Unauthenticated(
                "The token is not that of a turn under way: it ends a minute after its turn, and "
                "with its session",
                has_credential=True,
            )
        return LentProgramTools(_decode(record.body), self._actions)

    async def end_session(self, session: SessionRef) -> None:
        """Let no token of the session count any more. Raises StoreError."""
        main = await self._open_main()
        while page := await main.records(TOOL_TOKEN, tag=session.tag, limit=_PAGE):
            await main.change(*[Delete(key=record.key) for record in page])

    async def close(self) -> None:
        await self._tasks.close()

    async def _renew(self, main: Store, key: Key) -> None:
        while True:
            await self._clock.sleep(_RENEW_S)
            if not await self._write_again(main, key):
                return

    async def _write_again(self, main: Store, key: Key) -> bool:
        """Let the token count for another minute; False if it is gone."""
        try:
            record = await main.record(key)
            if record is None:
                return False
            await main.change(
                Put(
                    key=key,
                    body=record.body,
                    due_in_ms=round(OUTLIVES_TURN_S * 1000),
                    tags=record.tags,
                    expected=record.version,
                )
            )
        except RecordConflict:
            return False  # The session has just ended.
        except StoreError as error:
            _log.warning("a tool token was not renewed", extra={"reason": error.message})
        return True


class LentProgramTools:
    """It implements `ports.tools.ProgramTools`."""

    def __init__(self, lent: _Lent, actions: Mapping[str, tuple[ToolDefinition, Action]]) -> None:
        self.turn = lent.turn
        self._actions = {name: actions[name] for name in lent.tools if name in actions}

    @property
    def definitions(self) -> Sequence[ToolDefinition]:
        return [definition for definition, _ in self._actions.values()]

    async def call(
        self, name: str, arguments: Any, on_update: OnUpdate | None = None
    ) -> dict[str, Any]:
        found = self._actions.get(name)
        if found is None:
            raise PermissionDenied("The agent of this turn was not given this tool")
        _, action = found
        return await action(self.turn, arguments, on_update or unseen)


def _key(token: str) -> Key:
    # A scope for each, so that due work deletes them side by side.
    return Key(TOOL_TOKEN, hashlib.sha256(token.encode()).hexdigest(), "")


def _put(key: Key, body: bytes, session: SessionRef) -> Put:
    return Put(key=key, body=body, due_in_ms=round(OUTLIVES_TURN_S * 1000), tags=(session.tag,))


async def _forget(_: Record) -> Sequence[Change]:
    """Due work deletes a record for which its handler has no change."""
    return ()
