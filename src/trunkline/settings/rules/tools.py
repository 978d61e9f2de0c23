"""Rules of the tools that agents may use which are models."""

from collections.abc import Iterator

from trunkline.config.problems import Problem
from trunkline.settings.backends import OpenAIBackend
from trunkline.settings.root import Settings


def tool_problems(settings: Settings) -> Iterator[Problem]:
    """A tool that calls other agents must be on, and needs somebody to call."""
    remote = settings.remote
    for handle, agent in settings.agents.items():
        backend = agent.backend
        if not isinstance(backend, OpenAIBackend) or not backend.tools:
            continue
        path, first = ("agents", handle, "backend", "tools"), backend.tools[0]
        off = [name for name in backend.tools if not remote.enabled or name not in remote.tools]
        if off:
            on = "enabled = true" if not remote.enabled else f'tools = ["{off[0]}", …]'
            yield Problem(
                path=path,
                what=f"{off[0]} is off",
                remedy=f"Set {on} in [remote], or remove it from tools.",
            )
        elif not settings.targets and not remote.allow_target_url:
            yield Problem(
                path=path,
                what=f"{first} has nobody to call",
                remedy="Add a table [targets.ALIAS] with a base_url.",
                reads=(("targets",),),
            )
