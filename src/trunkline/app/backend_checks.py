"""Whether what stands behind an agent is there. A new kind of backend is one more case here."""

from pathlib import Path

from msgspec.structs import replace

from trunkline.app.models import openai_options
from trunkline.app.openclaw import check_openclaw
from trunkline.app.programs import check_program
from trunkline.app.upstreams import upstream_target
from trunkline.backends.a2a.check import check_a2a
from trunkline.backends.openai.check import check_openai
from trunkline.backends.python.loader import load
from trunkline.clock import SystemClock
from trunkline.model.errors import TrunklineError
from trunkline.ports.doctor import Finding
from trunkline.remote import Limits, connect
from trunkline.settings import AgentSettings
from trunkline.settings import backends as kinds

# Somebody waits for the result, who can ask again.
_LIMITS = Limits(attempts=1, connect_s=5.0)


async def check_agent(
    agent: AgentSettings, data: Path | None = None, *, allow_private: bool = False
) -> list[Finding]:
    """Asks for nothing that costs or changes anything. `data` is the folder in which the
    gateway keeps keys of its own, `allow_private` is that of the network settings."""
    if agent.unavailable:
        return [Finding("warning", f"is off: {agent.unavailable}")]
    match agent.backend:
        case kinds.PythonBackend(target=target):
            return [_code(target)]
        case kinds.OpenAIBackend() as model:
            return await check_openai(openai_options(replace(model, tools=()), {}))
        case kinds.A2aBackend() as given:
            behind = upstream_target(given, allow_private=allow_private)
            async with connect(behind, limits=_LIMITS) as upstream:
                return await check_a2a(upstream, given.url)
        case kinds.OpenClawBackend() as openclaw:
            return await check_openclaw(openclaw, SystemClock(), data)
        case kinds.CommandBackend() | kinds.AcpBackend() as program:
            return await check_program(program)
        case kinds.EchoBackend() | kinds.ScriptedBackend():
            return [Finding("ok", "needs nothing else")]


def _code(target: str) -> Finding:
    try:
        found = load(target)
    except TrunklineError as error:
        return Finding("error", error.message)
    names = ", ".join(agent.name for agent in found)
    return Finding("ok", f"{target} has {names}")
