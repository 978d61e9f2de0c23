"""Agents that are programs: plain text, Claude Code, Codex.

Read in this order: `format` (what differs between them), `text`, `claude` and `codex` (what
their bytes mean, without I/O), `backend` (with the turns), `doctor`.
"""

from trunkline.backends.command.rules import command_problems
from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.kind import Adapter, Kind

__all__ = ["KIND"]


def _adapter() -> Adapter[CommandBackend]:
    from trunkline.backends.command.backend import make
    from trunkline.backends.command.doctor import check

    return Adapter(make, check)


KIND = Kind(settings=CommandBackend, rules=command_problems, adapter=_adapter)
