"""Rules of the tools that agents may use which are models."""

from collections.abc import Iterator

from trunkline.settings.backends import OpenAIBackend
from trunkline.settings.problems import Problem
from trunkline.settings.root import Settings


def tool_problems(settings: Settings) -> Iterator[Problem]:
    """`remote_agent` needs somebody to call."""
    for handle, agent in settings.agents.items():
        backend = agent.backend
        if not isinstance(backend, OpenAIBackend) or "remote_agent" not in backend.tools:
            continue
        path = ("agents", handle, "backend", "tools")
        if not settings.remote.enabled:
            yield Problem(
                path=path,
                what="remote_agent is off",
                remedy="Set enabled = true in [remote], or remove it from tools.",
            )
        elif not settings.targets and not settings.remote.allow_target_url:
            yield Problem(
                path=path,
                what="remote_agent has nobody to call",
                remedy="Add a table [targets.ALIAS] with a base_url.",
                reads=(("targets",),),
            )
