"""A published agent, as far as the runtime knows it."""

from msgspec import Struct

from trunkline.engine.lanes import Lanes
from trunkline.ports.backend import Backend
from trunkline.ports.store import Scope
from trunkline.runtime.run import Run


class Lane(Struct, frozen=True, cache_hash=True):
    """Turns of one caller's context run one after the other."""

    scope: Scope
    context_id: str


class AgentLimits(Struct, frozen=True, kw_only=True):
    max_queue_per_context: int = 9999
    # 0 means no bound.
    max_concurrency: int = 0
    task_deadline_s: float = 1800.0
    cancel_grace_s: float = 5.0
    # Treat a message id that was seen before as the same request. Off by default:
    # real clients reuse ids.
    deduplicate_messages: bool = False


class PublishedAgent:
    def __init__(
        self,
        *,
        handle: str,
        backend: Backend,
        input_modes: tuple[str, ...] = ("*/*",),
        limits: AgentLimits | None = None,
    ) -> None:
        self.handle = handle
        self.backend = backend
        self.input_modes = input_modes
        self.limits = limits or AgentLimits()
        self.lanes: Lanes[Lane, Run] = Lanes(
            max_waiting=self.limits.max_queue_per_context,
            max_running=self.limits.max_concurrency,
        )
