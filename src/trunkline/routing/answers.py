"""`Answers`: the due work that follows the end of a call: a turn of the caller that begins with the
answer, and a copy of the answer for the caller's channel."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from trunkline.engine.agent_calls import CallLimits
from trunkline.model.calls import (
    Caller,
    Operation,
    SendMessageConfiguration,
    SendMessageRequest,
)
from trunkline.model.errors import CallerError
from trunkline.model.routed_calls import CallOrigin
from trunkline.model.session import ReplyPayload
from trunkline.ports.records import Change, Record
from trunkline.ports.store import Store
from trunkline.routing.call_records import CallRecord, RoutedCall, call_key, decode_record
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.delivery import CHANNEL_COPY, SESSION_TURN, response_id, response_message
from trunkline.runtime.due_work import DueKind

_log = logging.getLogger("trunkline.routing")


class Answers(Struct, frozen=True, kw_only=True, eq=False):
    callees: Callees
    limits: Callable[[], CallLimits]
    open_main: Callable[[], Awaitable[Store]]

    def due_kinds(self) -> tuple[DueKind, ...]:
        return (
            DueKind(name=SESSION_TURN, handle=self._begin_turn, workers=16),
            DueKind(name=CHANNEL_COPY, handle=self._copy, workers=16),
        )

    async def _begin_turn(self, due: Record) -> Sequence[Change]:
        """Send the answer to the agent that asked, as a message of its session. A second attempt
        does nothing, because the message has a key."""
        record, callee = await self._found(due)
        if record is None or callee is None:
            return ()
        call = record.call
        if await callee.sessions.ended_ms(call.session) >= record.ended_ms:
            return ()
        turns = call.turns + 1
        if turns > self.limits().max_turns:
            _log.warning(
                "an answer began no turn, because too many in a row began with one",
                extra={"agent": call.session.scope.agent, "turns": call.turns},
            )
            return ()
        scope = call.session.scope
        caller = Caller(
            principal=call.principal,
            tenant=scope.tenant,
            idempotency_key=response_id(call.id),
            # Those that led to the turn that asked lead to this one.
            call_chain=call.chain,
            call=CallOrigin(
                root=call.root, depth=call.depth - 1, turns=turns, principal=call.principal
            ),
            asked_by=call.callee,
            operation=Operation.SEND_MESSAGE.value,
            binding=call.source_tool,
        )
        request = SendMessageRequest(
            message=response_message(call, bytes(record.payload)),
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        try:
            await callee.service.send(callee.agent.current(), caller, request)
        except CallerError as error:
            # No later attempt would fare better; the entry of the session stays.
            _log.warning(
                "an answer began no turn",
                extra={"agent": scope.agent, "reason": error.message},
            )
        return ()

    async def _copy(self, due: Record) -> Sequence[Change]:
        record, callee = await self._found(due)
        if record is None or callee is None:
            return ()
        call = record.call
        text = bytes(record.payload).decode()
        if self.callees.policy_of(call.session.scope.agent).channel == "log":
            _log.info("an answer of an agent", extra=_about(call) | {"answer": text})
        elif _goes_out(call, callee):
            await self._reply(call, callee, text)
        return ()

    async def _reply(self, call: RoutedCall, callee: Callee, text: str) -> None:
        """Add the answer to the task of the turn that asked, once."""
        payload = ReplyPayload(text=text)
        try:
            sent = await callee.queued_replies.deliver(
                call.caller_task_id,
                payload,
                agent=callee.agent.handle,
                key=response_id(call.id),
            )
        except CallerError as error:
            _log.warning("an answer was not copied", extra=_about(call) | {"reason": error.message})
        else:
            if not sent.ok:
                _log.warning(
                    "an answer was not copied", extra=_about(call) | {"reason": sent.error}
                )

    async def _found(self, due: Record) -> tuple[CallRecord | None, Callee | None]:
        """The call, and the agent that asked; None where one of them is gone."""
        main = await self.open_main()
        stored = await main.record(call_key(due.body.decode()))
        record = None if stored is None else decode_record(stored.body)
        if record is None or record.state in ("pending", "discarded"):
            return None, None
        return record, self.callees.callee(record.call.session.scope.agent)


def _goes_out(call: RoutedCall, callee: Callee) -> bool:
    """Whether a copy goes out on the channel `a2a`: beside an entry of the session it would be a
    second reply to the same message, which the origin policy of the agent may allow."""
    is_legacy = callee.agent.profile.origin_routing_policy == "legacy-origin-routing"
    return call.delivery == "channel" or is_legacy


def _about(call: RoutedCall) -> dict[str, object]:
    return {"agent": call.session.scope.agent, "callee": call.callee, "call": call.id}
