"""The parent process of a PostgreSQL server, so that tests leave no process and no folder behind.

It runs `postgres` on request and ends with the test run, however that ends: its input is a pipe
that only the test run holds. Requests are lines on that pipe; each gets one line as its answer.

    start OPTION...   the process id of the new server
    wait              the exit code, once the server and all its children are gone
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(folder: str, command: list[str], user: int | None) -> None:
    prctl = ctypes.CDLL(None).prctl
    # The children of a killed server become children of this process, which waits for them: a
    # server does not start while one of its predecessor's children still has the memory.
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    server: subprocess.Popen[bytes] | None = None
    for line in sys.stdin:
        verb, *options = json.loads(line)
        if verb == "start":
            with open(f"{folder}/log", "ab") as log:
                server = subprocess.Popen(
                    [*command, *options],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    user=user,
                    group=user,
                    extra_groups=None if user is None else [],
                    # Runs after the change of user, which would take it back.
                    preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT),
                )
            print(server.pid, flush=True)
        elif server is not None:
            print(server.wait(), flush=True)
            _wait_for_children()
    if server is not None and server.poll() is None:
        # A stopped process gets no other signal.
        server.send_signal(signal.SIGCONT)
        server.send_signal(signal.SIGQUIT)
        server.wait()
    _wait_for_children()
    shutil.rmtree(folder, ignore_errors=True)


def _wait_for_children() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


if __name__ == "__main__":
    # What ends the test run from a terminal reaches this process too; it ends after the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(*json.loads(sys.argv[1]))
