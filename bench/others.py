"""How much of the machine somebody else used meanwhile: the noise in the figures."""

import os
import resource
import time
from pathlib import Path


class Others:
    """Take one before the first server starts and ask it after the last has ended."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._busy_s = _machine_s()
        self._own_s = _own_s()

    def cores(self) -> float:
        """Cores used by processes that are neither this one nor its ended children."""
        foreign = (_machine_s() - self._busy_s) - (_own_s() - self._own_s)
        return max(0.0, foreign / (time.monotonic() - self._started))


def _machine_s() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
