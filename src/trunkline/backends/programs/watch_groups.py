"""Kills process groups when its standard input ends: it ends when the gateway does.

Run as a script of its own. Reads `+GROUP` and `-GROUP`, one per line.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    # Ctrl+C and the like are for the gateway, whose end is what this one waits for.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        (groups.add if line.startswith("+") else groups.discard)(group)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
