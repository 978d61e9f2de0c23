"""OpenClaw behind the gateway.

Meanings and decisions, without I/O: `frames`, `handshake`, `prompt`, `questions`, `outputs` (of
events), `recovery` (what became of a run). Around them: `address`, `device` (the key),
`connection` (one socket), `shared_connection`, `agents` (what OpenClaw has), `notes`
(what outlives the gateway), `exchange` (the messages about a run), `run` (one turn), `backend`,
and the same over HTTP: `completions`.
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
