"""Which core runs the servers and which the load generator."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def split() -> tuple[int, int]:
    """The servers' core and the load generator's."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("bench: needs two cores, one for the servers and one for the load")
    return cores[0], cores[-1]


@contextmanager
def inherited_by_children(core: int) -> Iterator[None]:
    """Processes started inside are pinned from their first instruction, threads included."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
