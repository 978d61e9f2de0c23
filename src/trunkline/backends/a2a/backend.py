"""`A2aBackend`: another A2A agent behind the `Backend` port."""

from collections.abc import Awaitable, Callable

from trunkline.backends.a2a import notes as kept_notes
from trunkline.backends.a2a.cards import UpstreamCard
from trunkline.backends.a2a.run import Run, cancel_task
from trunkline.backends.a2a.settings import A2aBackend as A2aSettings
from trunkline.backends.a2a.upstream import MakeUpstream, Upstream, limits_of, upstream_target
from trunkline.backends.kind import Resources
from trunkline.backends.turn_task import TurnTaskBackend
from trunkline.ports.backend import Notes, TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import ClientTap
from trunkline.remote import Agents, Target
from trunkline.remote.errors import RemoteError


class A2aBackend(TurnTaskBackend[Run]):
    can_resume = True

    def __init__(
        self,
        settings: A2aSettings,
        make_upstream: MakeUpstream,
        *,
        clock: Clock,
        turn_s: float,
        close_upstream: Callable[[], Awaitable[None]] | None = None,
        watches_card: bool = True,
    ) -> None:
        """Without `watches_card` the upstream is asked for its card when it is called."""
        super().__init__("a2a")
        self._watches_card = watches_card
        self._settings = settings
        self._make_upstream = make_upstream
        self._upstream = make_upstream({}, None)
        self._clock = clock
        self._turn_s = turn_s
        self._close_upstream = close_upstream
        self.card = UpstreamCard(url=settings.url, clock=clock)

    async def open(self, agent: str, notes: Notes) -> None:
        if not self._watches_card:
            return
        await self.card.recall(notes)
        self.tasks.spawn(self.card.keep_fresh(self._upstream, notes), name="upstream card")

    async def presence(self) -> bool:
        """Whether the upstream agent gives its card now."""
        try:
            await self._upstream.card(fresh=True)
        except RemoteError:
            return False
        return True

    def turn_task(self, turn: TurnRequest) -> Run:
        return Run(
            turn,
            self._settings,
            self._make_upstream,
            card=self.card.latest,
            turn_s=self._turn_s,
            clock=self._clock,
            tasks=self.tasks,
        )

    async def abandon(self, run_id: str, notes: Notes) -> None:
        if (run := self.turn_of(run_id)) is not None:
            run.cancel()
        kept = kept_notes.read(await notes.recall(kept_notes.name_of(run_id)))
        if kept is not None and kept.task:
            await cancel_task(self._upstream, kept.task, run_id=run_id)

    async def close(self) -> None:
        await super().close()
        if self._close_upstream is not None:
            await self._close_upstream()


def make(settings: A2aSettings, resources: Resources) -> A2aBackend:
    target = upstream_target(settings, allow_private=resources.allow_private)
    return backend_for(
        target,
        settings,
        clock=resources.clock,
        turn_s=resources.profile.task_deadline_s,
        tap=resources.tap,
    )


def backend_for(
    target: Target,
    settings: A2aSettings,
    *,
    clock: Clock,
    turn_s: float,
    watches_card: bool = True,
    tap: ClientTap | None = None,
) -> A2aBackend:
    agents = Agents(clock=clock, limits=limits_of(settings), tap=tap)
    usual = agents.at(target)

    def upstream(headers: dict[str, str], timeout_s: float | None) -> Upstream:
        if not headers and timeout_s is None:
            return usual
        return agents.at(target, headers=headers, timeout_s=timeout_s)

    return A2aBackend(
        settings,
        upstream,
        clock=clock,
        turn_s=turn_s,
        close_upstream=agents.close,
        watches_card=watches_card,
    )
