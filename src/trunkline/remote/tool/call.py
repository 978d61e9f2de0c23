"""One request to one peer: what was heard, what to report of it, and how it failed."""

import inspect
import logging
from typing import Any, Final

import msgspec

from trunkline.model.card import AgentCard
from trunkline.model.errors import StoreError
from trunkline.model.values import TERMINAL
from trunkline.ports.tools import OnUpdate
from trunkline.remote.peer import Peer, StreamItem
from trunkline.remote.progress import Progress
from trunkline.remote.tool import envelope
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.diagnostics import capability_diagnostics
from trunkline.remote.tool.failure import ToolFailure, too_many_bytes, too_many_events
from trunkline.remote.tool.handles import TaskHandles
from trunkline.remote.tool.limits import Limit
from trunkline.remote.tool.request import ToolRequest
from trunkline.remote.tool.resolve import Route, is_configured
from trunkline.remote.tool.signing import signature_of
from trunkline.remote.tool.summary import raw_of, raw_stream, summary_of

_log = logging.getLogger("trunkline.remote.tool")

# All events together, as JSON. The result holds each of them, and once more what they add up
# to; a single answer may have a quarter of this.
MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
_encode = msgspec.json.Encoder().encode


class Call:
    def __init__(
        self,
        request: ToolRequest,
        route: Route,
        peer: Peer,
        *,
        config: ToolConfig,
        handles: TaskHandles,
        limit: Limit,
        on_update: OnUpdate | None,
    ) -> None:
        self.request = request
        self.route = route
        self.peer = peer
        self.limit = limit
        self.card: AgentCard | None = None
        self.progress = Progress()
        self.events: list[StreamItem] = []
        self._heard_bytes = 0
        self._config = config
        self._handles = handles
        self._on_update = on_update
        # The task that `_handle` stands for.
        self._held = ""
        self._handle = ""
        self._signature = ""

    async def open(self) -> AgentCard:
        self.card = await self.peer.card()
        self.limit.touch()
        return self.card

    async def hear(self, item: StreamItem) -> None:
        """Take in what the peer said."""
        self.events.append(item)
        most = self._config.defaults.max_stream_events
        if len(self.events) > most:
            raise too_many_events(most)
        self._heard_bytes += len(_encode(item))
        if self._heard_bytes > MAX_STREAM_BYTES:
            raise too_many_bytes(MAX_STREAM_BYTES)
        self.progress.add(item)
        self.limit.touch()
        await self._hold()

    async def report(self, item: StreamItem) -> None:
        """Take it in, and tell the caller of it."""
        await self.hear(item)
        if self._on_update is None:
            return
        told = envelope.update(self.request.action, self.summary(), raw_of(item))
        try:
            done = self._on_update(told)
            if inspect.isawaitable(done):
                await done
        except Exception:  # noqa: BLE001 - logged; the result still matters
            _log.exception("on_update failed; it is not called again")
            self._on_update = None
        self.limit.touch()

    @property
    def task_id(self) -> str:
        return self.progress.task_id or self.route.task_id

    @property
    def context_id(self) -> str:
        return self.progress.context_id or self.route.context_id

    async def _hold(self) -> None:
        """Have a handle for the task, the one that led here if it is of this task."""
        if not self._signature and not is_configured(self.route.target, self._config):
            self._signature = await self._sign()
        task_id, record = self.task_id, self.route.record
        if not task_id or task_id == self._held:
            return
        self._held = task_id
        try:
            if record is not None and record.task_id == task_id:
                self._handle = record.handle
                await self._handles.refresh(record, context_id=self.context_id)
            else:
                self._handle = await self._handles.issue(
                    self.route.target, task_id, self.context_id
                )
        except StoreError as error:
            # The work is under way; without a handle its id still leads back to it.
            _log.warning("the task handle was not stored", extra={"why": error.message})

    async def _sign(self) -> str:
        target = self.route.target
        try:
            key = await self._handles.signing_key()
        except StoreError as error:
            _log.warning("the continuation was not signed", extra={"why": error.message})
            return ""
        return signature_of(key, target.url, target.card_path, target.transports)

    def summary(self) -> dict[str, Any]:
        return summary_of(
            self.route.target,
            self.card,
            self.progress,
            task_id=self.route.task_id,
            context_id=self.route.context_id,
            task_handle=self._handle,
            signature=self._signature,
            reason=self.route.reason,
        )

    def single(self) -> envelope.Envelope:
        """The result when the peer gave one answer."""
        return envelope.success(self.request.action, self.summary(), raw_of(self.events[-1]))

    def followed(self) -> envelope.Envelope:
        """The result when the peer gave events."""
        return envelope.success(self.request.action, self.summary(), raw_stream(self.events))

    def explain(self, why: ToolFailure) -> ToolFailure:
        """The failure, with what is known about the peer and the task."""
        more: dict[str, Any] = {}
        if self.events and self.task_id:
            summary = self.summary()
            more |= {
                "task_id": self.task_id,
                **({"task_handle": self._handle} if self._handle else {}),
                **({"context_id": self.context_id} if self.context_id else {}),
                "suggested_action": "status",
                "partial_event_count": len(self.events),
                "latest_event_summary": summary,
                "continuation": summary.get("continuation"),
            }
        elif self.events:
            more["partial_event_count"] = len(self.events)
        if self.request.action == "send":
            modes = self.request.accepted_output_modes
            more["capability_diagnostics"] = capability_diagnostics(
                self.request.parts,
                self._config.policy.accepted_output_modes if modes is None else modes,
                self.card,
            )
        return why.with_details(more)

    @property
    def may_cancel(self) -> bool:
        """There is a task of this very call, and it can still be stopped."""
        state = self.progress.state
        return bool(self.progress.task_id) and state not in TERMINAL
