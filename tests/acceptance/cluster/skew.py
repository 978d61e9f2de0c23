"""`skewed`: nodes whose wall clock is wrong, by libfaketime. Their monotonic clock stays right."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.kill_gateway import GatewayProcess

# Debian keeps it in a folder for the architecture.
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
HAS_FAKETIME = pytest.mark.skipif(
    LIBRARY is None, reason="libfaketime is not installed: apt-get install faketime"
)
_SHARED_MEMORY = Path("/dev/shm")
# What the library makes for each process, and a process that is killed leaves behind.
_LEFT = re.compile(r"(?:faketime_shm|sem\.faketime_sem)_(\d+)")


@contextmanager
def skewed(nodes: dict[GatewayProcess, float]) -> Iterator[None]:
    """Processes that these nodes start have a clock that is wrong by so many seconds."""
    there = _left()
    for node, seconds in nodes.items():
        node.environment |= {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME": f"{seconds:+g}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
    try:
        yield
    finally:
        for path, pid in _left().items() - there.items():
            if not Path("/proc", pid).exists():
                path.unlink(missing_ok=True)


def _left() -> dict[Path, str]:
    found = ((path, _LEFT.fullmatch(path.name)) for path in _SHARED_MEMORY.iterdir())
    return {path: match[1] for path, match in found if match is not None}
