"""Findings of `trunkline doctor` about an agent written in Python."""

from trunkline.backends.kind import Resources
from trunkline.backends.python.loader import load
from trunkline.backends.python.settings import PythonBackend
from trunkline.model.errors import TrunklineError
from trunkline.ports.backend import Finding


async def check(settings: PythonBackend, resources: Resources) -> list[Finding]:
    try:
        found = load(settings.target)
    except TrunklineError as error:
        return [Finding("error", error.message)]
    names = ", ".join(agent.name for agent in found)
    return [Finding("ok", f"{settings.target} has {names}")]
