"""Becomes another program, with less memory than it had: `launch.py BYTES PROGRAM ARGUMENT…`.

Run as a script of its own, because a limit must be set in the child, and the gateway has
threads, so nothing of its own may run between fork and exec.
"""

import os
import resource
import sys


def main() -> None:
    limit, program, *arguments = sys.argv[1:]
    # RLIMIT_DATA counts writable memory, not reserved address space: runtimes such as V8 and
    # JavaScriptCore reserve address space by the hundred gigabytes and use little of it.
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
