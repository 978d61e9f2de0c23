"""OpenClaw behind the gateway.

Decisions without I/O: `frames`, `handshake`, `prompt`, `questions`, `outputs` (events as outputs)
and `recovery` (the next step for an interrupted run). Around them: `address`, `device` (the key),
`connection` (the socket that all runs share), `agents` (the agents of OpenClaw and their tools),
`notes` (the part that outlives the gateway), `exchange` (the messages about one run), `run` (one
turn) and `backend`. `completions` is the same over HTTP.
"""

from trunkline.backends.kind import Adapter, Kind
from trunkline.backends.openclaw.rules import openclaw_problems
from trunkline.backends.openclaw.settings import OpenClawBackend

__all__ = ["KIND"]


def _adapter() -> Adapter[OpenClawBackend]:
    from trunkline.backends.openclaw.backend import make
    from trunkline.backends.openclaw.doctor import check

    return Adapter(make, check)


KIND = Kind(settings=OpenClawBackend, rules=openclaw_problems, adapter=_adapter, can_resume=True)
