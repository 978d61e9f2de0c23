"""Findings about a program that cannot be started."""

import logging

from trunkline.backends.programs.program import Program
from trunkline.ports.backend import Finding

_log = logging.getLogger("trunkline.process")


def find_missing(program: Program) -> Finding | None:
    """None when the program can be started."""
    remedy = "Install it, or correct `command` and `cwd`; PATH is that of `inherit_env`."
    return Finding("error", fault, remedy) if (fault := program.fault()) else None


def warn_if_missing(agent: str, program: Program) -> None:
    """Say at the start what would otherwise be found out by the first turn. No more than
    that: the program may be installed while the gateway runs."""
    if (missing := find_missing(program)) is not None:
        _log.warning("%s. %s", missing.what, missing.remedy, extra={"agent": agent})
