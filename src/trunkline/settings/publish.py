"""Give the agents that were found in a Python target their handles."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from trunkline.model.errors import ConfigError
from trunkline.settings.agents import AgentSettings
from trunkline.settings.root import Settings
from trunkline.settings.target import EVERY, slug


def publish(settings: Settings, found: Mapping[str, Sequence[str]]) -> Settings:
    """Settings in which every `owner/*` is replaced by the agents found in its target.

    `found` has their names or slugs under the handle that stands for them. Each one is
    published as `handle_of(handle, name)`, with the settings of that handle.
    """
    agents: dict[str, AgentSettings] = {}
    for handle, agent in settings.agents.items():
        if not stands_for_many(handle):
            agents[handle] = agent
            continue
        for i, name in enumerate(found.get(handle, ())):
            own = handle_of(handle, name)
            if own in settings.agents or own in agents:
                raise ConfigError(
                    f'agents."{own}": two agents have this handle. Give one of them another '
                    'slug: @agent(slug="…").'
                )
            agents[own] = replace(agent, default=agent.default and i == 0)
    return replace(settings, agents=agents)


def stands_for_many(handle: str) -> bool:
    return handle.endswith(f"/{EVERY}")


def handle_of(handle: str, name: str) -> str:
    return f"{handle.partition('/')[0]}/{slug(name)}"
