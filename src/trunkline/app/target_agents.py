"""`TargetAgents`: the targets of the configuration, as agents that others may call.

Each has its tasks in the main store, and its backend is that of an agent elsewhere. So a call of a
target is followed over broken connections and restarts like a task of such an agent.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from trunkline.app.runtimes import Runtimes
from trunkline.engine.agent_calls import TARGET, target_name
from trunkline.model.profile import Profile
from trunkline.ports.clock import Clock
from trunkline.routing.callees import Callee, internal_callee
from trunkline.runtime.agents import PublishedAgent
from trunkline.settings import Settings


class _Made(Struct, frozen=True, eq=False):
    # All that the agent depends on.
    basis: tuple[object, ...]
    agent: PublishedAgent


class TargetAgents:
    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self._clock = clock
        self._made = {name: self._agent(name, alias, settings) for name, alias in _named(settings)}

    @property
    def agents(self) -> Sequence[PublishedAgent]:
        return [made.agent for made in self._made.values()]

    def callee(self, name: str, runtimes: Runtimes) -> Callee | None:
        """The target with the alias, which may have `target:` before it."""
        made = self._made.get(target_name(name.removeprefix(TARGET)))
        runtime = runtimes.main
        if made is None or runtime is None:
            return None
        return internal_callee(made.agent, runtime, is_remote=True)

    async def apply(self, settings: Settings, runtimes: Runtimes) -> None:
        """Take over the targets of other settings. A turn under way goes on as it began."""
        wanted, main = dict(_named(settings)), runtimes.main
        for name in [name for name in self._made if name not in wanted]:
            agent = self._made.pop(name).agent
            if main is None:
                await agent.backend.close()
            else:
                leaving = main.publishing.withdraw(agent.handle, grace_s=settings.server.drain_s)
                runtimes.leaving.spawn(leaving, name=f"withdraw {agent.handle}")
        for name, alias in wanted.items():
            before = self._made.get(name)
            if before is not None and before.basis == _basis(alias, settings):
                continue
            agent = (made := self._agent(name, alias, settings)).agent
            self._made[name] = made
            if main is None:
                if before is not None:
                    await before.agent.backend.close()
            elif before is None:
                await main.publishing.publish(agent)
            else:
                replaced = await main.publishing.replace(agent, switch=_nothing)
                finishing = main.publishing.finish(replaced)
                runtimes.leaving.spawn(finishing, name=f"replaced {agent.handle}")

    def _agent(self, name: str, alias: str, settings: Settings) -> _Made:
        # Imported here, because it is slow and many configurations have no targets.
        from trunkline.app.outbound import target_for
        from trunkline.backends.a2a.backend import backend_for
        from trunkline.backends.a2a.settings import A2aBackend

        target = target_for(settings, alias)
        profile = Profile(on_restart=("resume_queued", "resume_running"))
        backend = backend_for(
            target,
            A2aBackend(url=target.url, a2a_version=settings.targets[alias].a2a_version),
            clock=self._clock,
            turn_s=profile.task_deadline_s,
            watches_card=False,
        )
        agent = PublishedAgent(
            handle=name,
            agent_id=name.removeprefix(TARGET),
            backend=backend,
            # Every A2A agent takes texts, and not every one takes data.
            input_modes=("text/plain",),
            profile=profile,
        )
        return _Made(_basis(alias, settings), agent)


def _named(settings: Settings) -> Iterator[tuple[str, str]]:
    """The names by which agents can call targets, and the aliases of these."""
    for alias in settings.targets:
        if name := target_name(alias):
            yield name, alias


def _basis(alias: str, settings: Settings) -> tuple[object, ...]:
    return settings.targets[alias], settings.remote, settings.network


def _nothing() -> None:
    """There are no addresses to change."""
