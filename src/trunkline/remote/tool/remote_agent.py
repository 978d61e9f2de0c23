"""`remote_agent`: one request in, one envelope out, whatever happens."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from trunkline.clock import SystemClock, Uuid4Ids
from trunkline.model.card import AgentCard
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.tools import OnUpdate, Signal
from trunkline.remote.agents import Agents
from trunkline.remote.errors import RemoteError
from trunkline.remote.target import Limits, Target, spelled_as
from trunkline.remote.tool import actions, envelope, failures
from trunkline.remote.tool.actions import Call
from trunkline.remote.tool.catalog import RefreshedCard, choose, entry_raw, entry_summary, tagged
from trunkline.remote.tool.config import ToolConfig, parse_config, with_usable_targets
from trunkline.remote.tool.envelope import Envelope
from trunkline.remote.tool.failures import Code, ToolFailure
from trunkline.remote.tool.handle_stores import open_handles
from trunkline.remote.tool.handles import Handles, Lookup, TaskHandles, Unknown
from trunkline.remote.tool.limits import Limit, bounded
from trunkline.remote.tool.peers import MOST_S, PeerCards, Peers
from trunkline.remote.tool.request import ToolRequest, read_request
from trunkline.remote.tool.resolve import Route, check_transports, resolve
from trunkline.remote.tool.validation import action_of, as_json, problems_of

_log = logging.getLogger("trunkline.remote.tool")

# An aborting caller waits no longer than this for the peer to cancel the task.
_CANCEL_S: Final = 10.0
_SPARE_S: Final = 60.0
_FOLLOW_UPS: Final = {
    "watch": actions.watch,
    "status": actions.status,
    "cancel": actions.cancel,
}


class RemoteAgentTool:
    """`await tool(request)`. Raises nothing but the caller's own cancellation.

    `on_update` gets an envelope for every event, `signal` aborts the request.
    Building it raises for a configuration that cannot work.
    """

    def __init__(
        self, config: ToolConfig, *, peers: Peers, handles: Handles, clock: Clock, ids: Ids
    ) -> None:
        self.config = with_usable_targets(config)
        if config.policy.enforce_supported_transports:
            for target in self.config.targets:
                check_transports(target, enforced=True)
        self._peers = peers
        self._handles = TaskHandles(handles, config.task_handles, clock, ids)
        self._cards = PeerCards(peers, self.config, clock)
        self._clock = clock
        self._ids = ids

    async def __call__(
        self,
        request: object,
        *,
        on_update: OnUpdate | None = None,
        signal: Signal | None = None,
    ) -> Envelope:
        action = action_of(request)
        try:
            given = as_json(request)
            errors = problems_of(given, self.config)
            if errors or not isinstance(given, Mapping):
                raise envelope.invalid(errors)
            return await self._run(read_request(given), on_update, signal)
        except ToolFailure as failure:
            return envelope.failure(action, failure)
        except RemoteError as error:
            return envelope.failure(action, failures.from_remote_error(error))
        except Exception as error:  # noqa: BLE001 - logged; the model learns its name only
            _log.exception("remote_agent failed")
            return envelope.failure(action, failures.internal(error))

    async def _run(
        self, request: ToolRequest, on_update: OnUpdate | None, signal: Signal | None
    ) -> Envelope:
        if request.action == "list_targets":
            return await self._list_targets(signal)
        route = await self._route(request, signal)
        check_transports(route.target, enforced=False)
        timeout_s = self._timeout_s(request, route.target)
        headers = spelled_as(route.target.headers, request.service_parameters)
        follows = request.follow_updates or request.action == "watch"
        cap_s = self.config.defaults.max_stream_ms / 1000 if follows else timeout_s
        call = Call(
            request=request,
            route=route,
            peer=self._peers.at(route.target, headers=headers, timeout_s=timeout_s),
            config=self.config,
            handles=self._handles,
            limit=Limit(self._clock, idle_s=timeout_s, cap_s=cap_s),
            on_update=on_update,
        )
        try:
            return await self._perform(call, signal, follows=follows)
        except RemoteError as error:
            raise call.explain(failures.from_remote_error(error)) from error
        except ToolFailure as failure:
            raise call.explain(await self._called_off(call, failure)) from None

    async def _perform(self, call: Call, signal: Signal | None, *, follows: bool) -> Envelope:
        def late(which: Literal["idle", "cap"]) -> ToolFailure:
            is_too_long = follows and which == "cap"
            return failures.stream_too_long() if is_too_long else failures.timed_out()

        result = await bounded(lambda: self._act(call), call.limit, signal, at=late)
        wait_ms = call.request.wait_timeout_ms
        if wait_ms is None:
            return result
        call.limit = Limit(self._clock, idle_s=wait_ms / 1000)
        return await bounded(
            lambda: actions.wait(call, self._clock),
            call.limit,
            signal,
            at=lambda _: _waited_in_vain(call, wait_ms),
        )

    async def _act(self, call: Call) -> Envelope:
        if call.request.action in _FOLLOW_UPS:
            return await _FOLLOW_UPS[call.request.action](call)
        act = actions.send_and_follow if call.request.follow_updates else actions.send
        return await act(call, call.message(self._ids.new()))

    async def _called_off(self, call: Call, failure: ToolFailure) -> ToolFailure:
        """Cancel the remote task too, if an aborting caller wants that."""
        wanted = call.request.cancel_on_abort and failure.details.get("aborted")
        if not wanted or not call.may_cancel:
            return failure
        limit = Limit(self._clock, idle_s=_CANCEL_S)
        try:
            await bounded(lambda: call.peer.cancel(call.task_id), limit)
        except (RemoteError, ToolFailure):
            return failure.with_details({"remote_task_canceled": False})
        return failure.with_details({"remote_task_canceled": True})

    async def _route(self, request: ToolRequest, signal: Signal | None) -> Route:
        if request.target_tags or request.skill:
            return await self._chosen(request, signal)
        continuation = request.continuation
        handle = continuation.task_handle if continuation else request.task_handle
        lookup: Lookup = Unknown()
        key = b""
        try:
            if handle:
                lookup = await self._handles.look_up(handle)
            if continuation is not None and continuation.signature:
                key = await self._handles.store.signing_key()
        except StoreError as error:
            _log.warning("the task handles cannot be read", extra={"why": error.message})
        is_durable = self._handles.store.is_durable
        return resolve(request, self.config, lookup, key=key, is_durable=is_durable)

    async def _chosen(self, request: ToolRequest, signal: Signal | None) -> Route:
        candidates = tagged(self.config, request.target_tags)
        cards: list[AgentCard | None] = [None] * len(candidates)
        if request.skill:
            cards = [seen.card for seen in await self._refreshed(candidates, signal)]
        target, reason = choose(candidates, cards, tags=request.target_tags, skill=request.skill)
        return Route(
            target=target, task_id=request.task_id, context_id=request.context_id, reason=reason
        )

    async def _list_targets(self, signal: Signal | None) -> Envelope:
        targets = self.config.targets
        seen = await self._refreshed(targets, signal)
        pairs = list(zip(targets, seen, strict=True))
        return envelope.success(
            "list_targets",
            {"targets": [entry_summary(target, found) for target, found in pairs]},
            [entry_raw(target, found) for target, found in pairs],
        )

    async def _refreshed(
        self, targets: Sequence[Target], signal: Signal | None
    ) -> list[RefreshedCard]:
        # Each peer has its own limit; a caller that joins a cancelled refresh may need two.
        limit = Limit(self._clock, idle_s=2 * MOST_S)
        return await bounded(lambda: self._cards.refreshed(targets), limit, signal)

    def _timeout_s(self, request: ToolRequest, target: Target) -> float:
        if request.timeout_ms is not None:
            return request.timeout_ms / 1000
        return target.timeout_s or self.config.defaults.timeout_ms / 1000


def _waited_in_vain(call: Call, wait_ms: int) -> ToolFailure:
    hint = "The task goes on: follow it with action=watch, or ask again with action=status."
    details = {"wait_timeout_ms": wait_ms, "suggested_actions": ["watch", "status"], "hint": hint}
    message = f"the task neither ended nor paused within {wait_ms} ms"
    return ToolFailure(Code.WAIT_TIMEOUT, message, details)


@asynccontextmanager
async def open_remote_agent(
    config: ToolConfig | object, *, handles: Path | None = None, clock: Clock | None = None
) -> AsyncIterator[RemoteAgentTool]:
    """`async with open_remote_agent(config) as remote_agent`, then `await remote_agent(request)`.

    `config` is the plugin's document or the same as settings; `handles` is the file in which
    task handles outlive the process. Raises ConfigError for a configuration that cannot work,
    and ToolFailure for an unsupported transport.
    """
    settings = config if isinstance(config, ToolConfig) else parse_config(config)
    clock = clock or SystemClock()
    # The tool itself ends a stream in time; this limit is for the case that it cannot.
    limits = Limits(stream_s=settings.defaults.max_stream_ms / 1000 + _SPARE_S)
    store = open_handles(handles, durable=settings.task_handles.durable)
    async with Agents(limits=limits, clock=clock) as peers:
        try:
            yield RemoteAgentTool(settings, peers=peers, handles=store, clock=clock, ids=Uuid4Ids())
        finally:
            await store.close()


def is_registered(config: ToolConfig, registration_mode: str) -> bool:
    """One optional tool, and only where the configuration turns it on."""
    return registration_mode == "full" and config.enabled


def json_result(envelope: Envelope) -> dict[str, Any]:
    """The envelope as the host passes results of tools to its model."""
    text = msgspec.json.format(msgspec.json.encode(envelope), indent=2).decode()
    return {"content": [{"type": "text", "text": text}], "details": envelope}


async def execute(
    tool: RemoteAgentTool,
    first: str | Mapping[str, Any],
    params: object = None,
    signal: Signal | None = None,
    on_update: OnUpdate | None = None,
) -> dict[str, Any]:
    """Both calling conventions: `(params, …)`, and `(call_id, params, signal, on_update)`."""
    request = params if isinstance(first, str) else first
    return json_result(await tool(request, on_update=on_update, signal=signal))
