"""`Turns`: gives an agent its message, and takes its output until the turn ends."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec
from msgspec import Struct, structs

from trunkline.engine.run_states import RunState
from trunkline.model.errors import StoreError, TaskNotFound, TrunklineError, Unavailable
from trunkline.model.events import TurnOptions
from trunkline.model.outputs import ENDS_TURN, Final, Output
from trunkline.model.principal import Principal
from trunkline.model.values import Message
from trunkline.ports.backend import TurnRequest
from trunkline.ports.call_path import CALL_PATH, CallPath, CredentialFor
from trunkline.runtime.direct_answers import DirectAnswers
from trunkline.runtime.fanout import NoReply, Reply
from trunkline.runtime.idempotency import IdempotencyKeys
from trunkline.runtime.journal import Journal, not_stored
from trunkline.runtime.large_append_turns import LARGE_APPEND_BYTES
from trunkline.runtime.recorder import Recorder
from trunkline.runtime.registry import Registry
from trunkline.runtime.run import Run, extra_of
from trunkline.runtime.sessions import RunSession, Sessions

_log = logging.getLogger("trunkline.turns")

# The entries and bytes by which an agent may be ahead of the disk: enough for full batches of
# commits, and too little to fill the memory.
MAX_UNCOMMITTED = 256
MAX_UNCOMMITTED_BYTES = 1024 * 1024
MAX_LARGE_UNCOMMITTED = 1

_NO_OPTIONS = TurnOptions()
# A constant, because Python 3.11 looks up enum members through the metaclass, which is slow.
_RUNNING = RunState.RUNNING
_encode = msgspec.json.Encoder().encode


class Turns(Struct, frozen=True, kw_only=True, eq=False):
    journal: Journal
    recorder: Recorder
    registry: Registry
    sessions: Sessions
    keys: IdempotencyKeys
    direct: DirectAnswers
    # The credentials of calls that the agent of a turn makes, by the caller of the turn, if it is
    # known, and the handle of the agent.
    credentials: Callable[[Principal | None, str], CredentialFor] | None = None

    def request(self, run: Run) -> TurnRequest:
        """The turn as the backend gets it. Called in the asyncio task of the turn."""
        options = run.options or _NO_OPTIONS
        agent, caller, credential = run.agent, run.principal, None
        if caller is None and options.call is not None:
            caller = options.call.principal
        if self.credentials is not None:
            credential = self.credentials(caller, agent.handle)
        chain = (*options.call_chain, agent.mark)
        CALL_PATH.set(
            CallPath(
                chain,
                agent.is_isolated,
                credential,
                caller,
                options.call,
                run.task_id,
                run.context_id,
                run.wire_id,
            )
        )
        live = run.live
        has_begun = run.fold is not None
        # A first turn, by far the most frequent kind, has no history.
        before = live.ahead() if live is not None and live.turns > has_begun else None
        history = before.settled_history() if before is not None else ()
        if history and (run.is_resumed or has_begun):
            own = (run.message, run.recorded)
            history = tuple([each for each in history if each is not own[0] and each is not own[1]])
        scope = run.lane.scope
        return TurnRequest(
            run_id=run.run_id,
            agent=run.agent.handle,
            task_id=live.task_id if live is not None else "",
            context_id=run.task_id if run.agent.is_stateless else run.context_id,
            message=run.message,
            history=history,
            artifacts=before.artifacts if before is not None else (),
            principal=scope.principal,
            tenant=scope.tenant,
            accepted_output_modes=options.accepted_output_modes,
            extensions=options.extensions,
            metadata=options.metadata,
            session=RunSession(run, self.sessions),
            is_resumed=run.is_resumed,
        )

    async def restored(self, run: Run, request: TurnRequest) -> TurnRequest:
        """The request with the large texts that stored messages and artifacts refer to."""
        request = await self.sessions.large_values.request(run.lane.scope, request)
        message = run.agent.rules.for_agent(request.message)
        if message is not request.message:
            request = structs.replace(request, message=message)
        run.restore(message)
        return request

    async def consume(self, run: Run, outputs: AsyncIterator[Output]) -> None:
        """Record the output of the agent until its turn ends."""
        recorder = self.recorder
        if run.live is not None and run.fold is None:
            recorder.begin(run)
        async for output in outputs:
            if (
                (live := run.live) is not None
                and live.recorded_bytes > LARGE_APPEND_BYTES
                and isinstance(output, ENDS_TURN)
            ):
                # The end of a turn assembles the whole answer, so large answers come one at a time.
                await self.journal.large_turns.free(live)
            if run.state is not _RUNNING:
                if recorder.feed_stopped(run, output):
                    return
            elif recorder.feed(run, output):
                break
            live = run.live
            if live is not None and (
                live.seq - live.committed_seq > MAX_UNCOMMITTED
                or live.recorded_bytes - live.committed_bytes > MAX_UNCOMMITTED_BYTES
                # Large texts are in memory until they are stored.
                or len(live.in_flight_values + live.values) > MAX_LARGE_UNCOMMITTED
            ):
                await self.journal.durable(live)
        else:
            if run.live is not None and run.live.recorded_bytes > LARGE_APPEND_BYTES:
                await self.journal.large_turns.free(run.live)
            if run.state is _RUNNING:
                recorder.feed(run, Final())
        if run.live is not None and run.live.recorded_bytes > LARGE_APPEND_BYTES:
            self.journal.large_turns.take(run.live)

    async def reply(self, run: Run, outcome: Message | TrunklineError) -> None:
        """Answer without a task. The answer is stored in the session, and with the key of the
        request, before a client reads it."""
        try:
            if isinstance(outcome, TrunklineError):
                await self.direct.refuse(run, outcome)
                run.finish(NoReply(outcome))
                return
            await self.direct.answer(run, outcome)
        except StoreError as error:
            _log.error("an answer could not be stored", extra=extra_of(run), exc_info=error)
            run.finish(NoReply(not_stored()))
        else:
            run.finish(Reply(_encode(outcome)))
        finally:
            self.keys.leave(run)

    async def keep_late(self, run: Run) -> None:
        """Record the late output of a stopped run, once its task has ended."""
        assert run.stopping is not None
        assert run.live is not None
        # The task may have left the memory since.
        await asyncio.shield(run.stopping)
        # Another node may have the lane by now, and then the late output is lost.
        with suppress(TaskNotFound, Unavailable):
            live = await self.registry.load(run.lane.scope, run.live.task_id)
            self.recorder.keep_late(run, live)
            self.registry.forget_if_idle(live)
