"""One turn of an agent, from the queue to its end."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from trunkline.engine.turn import TurnFold
from trunkline.model.errors import TrunklineError
from trunkline.model.events import TurnOptions
from trunkline.model.values import Message
from trunkline.ports.store import Scope
from trunkline.runtime.fanout import Reply, Subscription
from trunkline.runtime.live import Durable, LiveTask

if TYPE_CHECKING:
    from trunkline.runtime.agents import Lane, PublishedAgent


class Run:
    """It starts when its lane grants it and its message is durable, whichever comes last."""

    __slots__ = (
        "agent",
        "answer",
        "context_id",
        "fold",
        "is_durable",
        "is_fenced",
        "is_granted",
        "is_released",
        "lane",
        "live",
        "message",
        "options",
        "reader",
        "run_id",
        "scope",
        "started",
        "stopping",
        "task",
    )

    def __init__(
        self,
        *,
        run_id: str,
        agent: "PublishedAgent",
        lane: "Lane",
        scope: Scope,
        context_id: str,
        message: Message,
        options: TurnOptions | None,
        live: LiveTask | None,
    ) -> None:
        self.run_id = run_id
        self.agent = agent
        self.lane = lane
        self.scope = scope
        self.context_id = context_id
        self.message = message
        self.options = options
        # None while the agent may still answer with a message alone.
        self.live = live
        self.is_durable = False
        self.is_granted = False
        self.is_released = False
        # Nothing that the agent emits from now on counts.
        self.is_fenced = False
        self.started: float | None = None
        self.task: asyncio.Task[None] | None = None
        self.stopping: asyncio.Task[None] | None = None
        self.fold: TurnFold | None = None
        # For runs without a task: what became of it, and who streams it.
        self.answer: asyncio.Future[Reply | LiveTask] | None = None
        self.reader: Subscription | None = None

    @property
    def is_waiting(self) -> bool:
        return self.task is None and not self.is_released

    @property
    def may_start(self) -> bool:
        return self.is_granted and self.is_durable and self.task is None and not self.is_released

    def when_durable(self, told: "Callable[[Run, TrunklineError | None], None]") -> Durable:
        """What the journal calls once the run's message is committed."""
        return partial(told, self)

    def reply(self, reply: Reply) -> None:
        """Answer without a task."""
        if self.reader is not None:
            self.reader.put(reply)
            self.reader.end()
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(reply)

    def become(self, live: LiveTask) -> None:
        """The run has a task now."""
        self.live = live
        if self.is_waiting:
            live.waiting.append(self)
        else:
            live.run = self
        if self.reader is not None:
            live.subscriptions.append(self.reader)
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(live)
