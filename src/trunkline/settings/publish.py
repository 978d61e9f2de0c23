"""Give the agents that were found in a Python target their handles."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from trunkline.model.errors import ConfigError
from trunkline.settings.agents import AgentSettings, Found, PythonBackend
from trunkline.settings.root import Settings
from trunkline.settings.target import EVERY, join_target, slug, split_target


def publish(settings: Settings, found: Mapping[str, Sequence[Found]]) -> Settings:
    """Settings in which every `owner/*` is replaced by the agents found in its target.

    `found` is by handle, as in `settings.agents`. Names that agents have in common get a
    number: `local/echo`, `local/echo-2`.
    """
    agents: dict[str, AgentSettings] = {}
    taken = set(settings.agents)
    for handle, agent in settings.agents.items():
        owner, _, last = handle.partition("/")
        backend = agent.backend
        if last != EVERY or not isinstance(backend, PythonBackend):
            agents[handle] = agent
            continue
        place = split_target(backend.target)[0]
        if not found.get(handle):
            raise ConfigError(
                f"{backend.target}: holds no agent. Mark a function with "
                "`@agent(name=…)` from trunkline, or name another file."
            )
        for i, one in enumerate(found[handle]):
            own = _free(f"{owner}/{slug(one.name)}", taken)
            taken.add(own)
            agents[own] = replace(
                agent,
                default=agent.default and i == 0,
                backend=replace(backend, target=join_target(place, one.attribute)),
            )
    return replace(settings, agents=agents)


def _free(handle: str, taken: set[str]) -> str:
    number, free = 1, handle
    while free in taken:
        number += 1
        free = f"{handle}-{number}"
    return free
