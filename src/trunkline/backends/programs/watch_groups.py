"""Kills process groups when its standard input ends, which the end of the gateway causes.

The gateway runs this script as a separate process. It reads `+GROUP` and `-GROUP`, one per line.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    # Signals of a terminal end the gateway; this process waits for that.
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
