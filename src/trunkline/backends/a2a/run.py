"""`Run`: one turn, which sends its message to the upstream and passes the answer on."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from msgspec.structs import replace

from trunkline.backends.a2a import failures
from trunkline.backends.a2a.notes import Ask, Follow, LookAt, LookFor, TurnNotes
from trunkline.backends.a2a.outputs import Copy, still_asks
from trunkline.backends.a2a.request import context_for, headers_for, request_for
from trunkline.backends.a2a.settings import A2aBackend as A2aSettings
from trunkline.backends.a2a.upstream import MakeUpstream, Upstream
from trunkline.backends.output_channel import OutputChannel
from trunkline.backends.turn_task import TurnTask
from trunkline.background import BackgroundTasks
from trunkline.model.calls import ListTasksRequest, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.outputs import Failed, Note
from trunkline.model.values import (
    INTERRUPTED,
    SETTLED,
    Message,
    Part,
    Task,
    TaskStatusUpdateEvent,
)
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.protocol.client_responses import StreamItem
from trunkline.remote.errors import PeerRefused, PeerUnreachable, RemoteError

_log = logging.getLogger("trunkline.backends.a2a")

T = TypeVar("T")

# Between two attempts to reach an agent.
FIRST_RETRY_S, LONGEST_RETRY_S = 1.0, 10.0
# Between two looks at a task of an agent that does not stream.
FIRST_LOOK_S, LONGEST_LOOK_S = 0.1, 5.0
# A run looks for the task of its message among this many latest tasks of the context.
_LOOK_AMONG = 20


class Run(TurnTask):
    def __init__(
        self,
        turn: TurnRequest,
        settings: A2aSettings,
        make_upstream: MakeUpstream,
        *,
        card: AgentCard | None,
        turn_s: float,
        clock: Clock,
        tasks: BackgroundTasks,
    ) -> None:
        """`card` is the upstream's, if it is known; `turn_s` is the maximum duration of a turn."""
        super().__init__(turn, tasks, OutputChannel(max_total_bytes=settings.max_output_bytes))
        self._settings = settings
        self._card = card
        self._make_upstream = make_upstream
        self._headers = headers_for(turn)
        self._upstream = make_upstream(self._headers, None)
        self._turn_s = turn_s
        self._clock = clock
        self._copy = Copy(turn.history if turn.is_resumed else ())
        self._context_id = context_for(turn)
        self._notes = TurnNotes(turn, self._context_id)
        # Whether the upstream has said anything in this turn.
        self._is_heard = False
        # The run sent an answer, and the upstream has said nothing since.
        self._is_answering = False
        # Whether the run has sent an answer again that did not arrive.
        self._is_repeated = False
        self._is_sent = False

    @property
    def task_id(self) -> str:
        """The upstream's task; empty until it is known."""
        return self._notes.task_id

    async def stop(self) -> None:
        """End the outputs, and cancel the upstream's task; a mere `cancel` lets it go on."""
        self.cancel()
        task_id = self.task_id
        if not task_id and self._is_sent:
            # The message is on its way, or was refused.
            try:
                task = await self._find()
                task_id = task.id if task is not None else ""
            except RemoteError as error:
                self._warn("the agent behind the gateway did not list its tasks", error)
        if task_id:
            await cancel_task(self._make_upstream({}, None), task_id, run_id=self.turn.run_id)

    async def work(self) -> None:
        first = await self._notes.first()
        try:
            match first:
                case Ask():
                    await self._ask(first)
                case Follow():
                    self._notes.remember(first)
                    await self._pick_up()
                case LookFor(context):
                    self._notes.look_in(context)
                    await self._look_for(failures.UNKNOWN_AFTER_RESTART)
                case LookAt():
                    await self._look_at(first)
        except RemoteError as error:
            self._warn("the agent behind the gateway failed", error)
            await self.channel.put(failures.outcome_of(error))

    async def _ask(self, ask: Ask) -> None:
        if not ask.context:
            ask = replace(ask, context=await self._notes.named_context())
        streams = await self._is_there()
        try:
            await self._insist(lambda: self._attempt(ask, streams=streams), self._may_resend)
        except RemoteError as error:
            if self._copy.is_over:
                return
            if self._is_heard:
                self._warn("the connection to the agent behind the gateway broke", error)
                await self._pick_up()
            elif failures.is_unsent(error) or not failures.is_passing(error):
                raise
            elif ask.task:
                await self._look_at(LookAt(ask.task, ask.context))
            else:
                self._warn("the message to the agent behind the gateway may have arrived", error)
                await self._look_for(failures.MAY_HAVE_ARRIVED)

    async def _is_there(self) -> bool:
        """Wait for the upstream's card; whether the upstream streams."""
        try:
            card = await self._known_card(self._may_wait)
        except RemoteError as error:
            if failures.is_passing(error):
                # The run has not sent its message yet, whatever went wrong with the card.
                raise PeerUnreachable(error.message, reason=error.reason, is_unsent=True) from None
            raise
        return card.capabilities.streaming is not False

    async def _known_card(self, may_repeat: Callable[[RemoteError], bool]) -> AgentCard:
        if self._card is not None:
            return self._card
        return await self._insist(self._upstream.card, may_repeat)

    async def _attempt(self, ask: Ask, *, streams: bool) -> None:
        """Send the message, with a note for a restart in the meantime."""
        await self._notes.sends(ask)
        self._is_sent = True
        self._is_answering = bool(ask.task)
        try:
            await self._deliver(ask, streams=streams)
        except RemoteError as error:
            if failures.is_unsent(error) and not self._is_heard:
                self._is_sent = False
                await self._notes.take_back()
            raise

    def _may_wait(self, error: RemoteError) -> bool:
        return self._settings.on_unreachable == "retry" and failures.is_passing(error)

    def _may_resend(self, error: RemoteError) -> bool:
        return not self._is_heard and self._may_wait(error) and failures.is_unsent(error)

    async def _deliver(self, ask: Ask, *, streams: bool) -> None:
        if streams:
            try:
                await self._follow(self._upstream.stream(self._request(ask, waits=True)))
            except RemoteError as error:
                if self._is_heard or not failures.is_refusal_to_stream(error):
                    raise
            else:
                if not self._copy.is_over:
                    await self._pick_up()
                return
        # The agent may answer only when the work is done, however long that takes.
        patient = self._make_upstream(self._headers, self._turn_s)
        await self._take(await patient.send(self._request(ask, waits=False)))
        await self._look_on()

    def _request(self, ask: Ask, *, waits: bool) -> SendMessageRequest:
        return request_for(self.turn, ask, context_id=self._context_id, waits=waits)

    async def _follow(
        self, items: AsyncGenerator[StreamItem, None], *, is_late: bool = False
    ) -> None:
        """Pass on the events. A late subscriber may have missed some, so it leaves the last event
        out and its caller reads the whole task."""
        async with aclosing(items):
            async for item in items:
                is_end = isinstance(item, TaskStatusUpdateEvent) and item.status.state in SETTLED
                if is_late and is_end:
                    return
                await self._take(item)
                # A task that has ended also ends its stream, and the connection can be reused;
                # a task that asks may keep its stream open.
                if self._copy.is_asking:
                    return

    async def _pick_up(self) -> None:
        """Follow the task that the upstream has."""
        pause_s = 0.0
        while True:
            await self._take(await self._insist(self._get, failures.is_passing))
            if self._copy.is_over:
                return
            if not await self._may_follow():
                await self._look_on()
                return
            # Pause between attempts also when the upstream ends the stream again and again.
            await self._clock.sleep(pause_s)
            pause_s = min(max(pause_s * 2, FIRST_RETRY_S), LONGEST_RETRY_S)
            try:
                await self._follow(self._upstream.subscribe(self.task_id), is_late=True)
            except RemoteError as error:
                if failures.is_refusal_to_stream(error):
                    await self._look_on()
                    return
                if not failures.is_passing(error):
                    raise

    async def _may_follow(self) -> bool:
        """Whether to subscribe to a task that is under way.

        A2A 0.3 does not say which event such a stream begins with, and its SDK applies an event
        twice when two readers follow the task. Polling the task is safe.
        """
        card = await self._known_card(failures.is_passing)
        versions = {each.protocol_version[:1] for each in card.supported_interfaces}
        return self._settings.a2a_version != "0.3" and ("1" in versions or not versions)

    async def _look_on(self) -> None:
        """Poll the task until it has settled."""
        pause_s = FIRST_LOOK_S
        while not self._copy.is_over:
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_LOOK_S)
            await self._take(await self._insist(self._get, failures.is_passing))

    async def _look_for(self, otherwise: str) -> None:
        """Find the task of the message and follow it; without one, fail with this text."""
        task = await self._insist(self._find, failures.is_passing)
        if task is None:
            await self.channel.put(Failed(otherwise))
        else:
            await self._take(task)
            if not self._copy.is_over:
                await self._pick_up()

    async def _find(self) -> Task | None:
        """The upstream's task that holds the message of this turn, if its list has it."""
        query = ListTasksRequest(
            context_id=self._notes.context_id, page_size=_LOOK_AMONG, history_length=_LOOK_AMONG
        )
        try:
            page = await self._upstream.list(query)
            found = [task for task in page.tasks if self._holds(task)]
            return await self._upstream.get(found[0].id) if found else None
        except PeerRefused as error:
            if failures.is_passing(error):
                raise
            # A2A 0.3 has no list of tasks, and 1.0 agents may refuse it.
            return None

    async def _look_at(self, at: LookAt) -> None:
        """Read the task to find out whether the answer arrived."""
        self._notes.remember(at)
        task = await self._insist(self._get, failures.is_passing)
        is_waiting = task.status.state in INTERRUPTED
        did_not_arrive = is_waiting and bool(task.history) and not self._holds(task)
        if did_not_arrive and not self._is_repeated:
            self._is_repeated = True
            await self._ask(Ask(task=at.task, context=at.context))
            return
        # The task went on or asks again. Without a history to tell, the caller is asked again.
        await self._take(task)
        if not self._copy.is_over:
            await self._pick_up()

    def _holds(self, task: Task) -> bool:
        return any(message.message_id == self.turn.run_id for message in task.history)

    async def _get(self) -> Task:
        return await self._upstream.get(self.task_id)

    async def _take(self, item: StreamItem) -> None:
        self._is_heard = True
        if not self._notes.is_known and not isinstance(item, Message):
            await self._notes.know(item)
        is_first, self._is_answering = self._is_answering, False
        if is_first and still_asks(item, self.turn.history):
            # The upstream shows the task as it was before the answer; its reaction follows.
            return
        for output in self._copy.feed(item):
            if self._copy.is_asking:
                await self._notes.waits()
            await self.channel.put(output)

    async def _insist(
        self, call: Callable[[], Awaitable[T]], may_repeat: Callable[[RemoteError], bool]
    ) -> T:
        """Repeat the call until it succeeds, or until `retry_s` has passed."""
        until = self._clock.monotonic() + self._settings.retry_s
        pause_s, is_told = FIRST_RETRY_S, False
        while True:
            try:
                return await call()
            except RemoteError as error:
                if not may_repeat(error) or self._clock.monotonic() + pause_s > until:
                    raise
                self._warn("the gateway calls the agent behind it again", error)
            if not is_told:
                is_told = True
                note = Note((Part(text=failures.TRYING),), is_unreachable=not self._is_sent)
                await self.channel.put(note)
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_RETRY_S)

    def _warn(self, what: str, error: RemoteError) -> None:
        about = {"agent": self.turn.agent, "run_id": self.turn.run_id}
        _warn(what, error, about | {"upstream_task": self.task_id})


def _warn(what: str, error: RemoteError, about: dict[str, str]) -> None:
    _log.warning(what, extra=about | {"reason": error.reason, "error": error.message})


async def cancel_task(upstream: Upstream, task_id: str, *, run_id: str) -> None:
    try:
        await upstream.cancel(task_id)
    except RemoteError as error:
        about = {"run_id": run_id, "upstream_task": task_id}
        _warn("the agent behind the gateway did not cancel", error, about)
