"""Agents that speak the Agent Client Protocol over standard input and output.

Read in this order, all without I/O: `rpc` (lines and content blocks), `updates` (reports of an
agent, as outputs), `permission` (a question and the answer to it); then `session` (requests and
answers of one session, on a process of its own) and `backend` (with the turns).
"""

from trunkline.backends.acp.settings import AcpBackend
from trunkline.backends.kind import Adapter, Kind
from trunkline.backends.programs.settings import program_problems

__all__ = ["KIND"]


def _adapter() -> Adapter[AcpBackend]:
    from trunkline.backends.acp.backend import make
    from trunkline.backends.acp.doctor import check

    return Adapter(make, check)


KIND = Kind(settings=AcpBackend, rules=program_problems, adapter=_adapter)
