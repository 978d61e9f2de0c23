"""Another A2A agent as a backend: the gateway owns the task, the upstream has its own.

Read `notes` (the record of an upstream task, and the next step after a restart), `request` (the
message for the upstream), `outputs` (its events as outputs), `failures` (the texts for the caller
when a call fails), then `run` (one turn), `cards` (the upstream's card, kept fresh), `upstream`
and `backend`.
"""

from trunkline.backends.a2a.rules import a2a_problems
from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.kind import Adapter, Kind

__all__ = ["KIND"]


def _adapter() -> Adapter[A2aBackend]:
    from trunkline.backends.a2a.backend import make
    from trunkline.backends.a2a.doctor import check

    return Adapter(make, check)


KIND = Kind(
    settings=A2aBackend, rules=a2a_problems, adapter=_adapter, can_resume=True, has_own_name=True
)
