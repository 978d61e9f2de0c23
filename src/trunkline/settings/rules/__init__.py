"""What must hold between keys and inside texts, which the types alone cannot say."""

from collections.abc import Iterator

from trunkline.config.problems import Path, Problem
from trunkline.settings.root import Settings
from trunkline.settings.rules.access import access_problems
from trunkline.settings.rules.addresses import address_problems
from trunkline.settings.rules.agents import agent_problems
from trunkline.settings.rules.profiles import profile_problems
from trunkline.settings.rules.stores import store_problems
from trunkline.settings.rules.targets import target_problems
from trunkline.settings.rules.tools import tool_problems

__all__ = ["find_problems"]


_RULES = (
    access_problems,
    agent_problems,
    profile_problems,
    address_problems,
    store_problems,
    target_problems,
    tool_problems,
)


def find_problems(settings: Settings, misfits: list[Problem]) -> Iterator[Problem]:
    """Broken rules, without those that only follow from a misfit the decoder reported."""
    bad = [problem.path for problem in misfits]
    for rule in _RULES:
        for problem in rule(settings):
            if any(_starts_with(problem.path, path) for path in bad):
                continue
            if any(_starts_with(path, read) for read in problem.reads for path in bad):
                continue
            yield problem


def _starts_with(path: Path, start: Path) -> bool:
    return path[: len(start)] == start
