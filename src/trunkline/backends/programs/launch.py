"""Starts a program with a limit of its memory: `launch.py BYTES PROGRAM ARGUMENT…`.

The limit must be set in the child. The gateway has threads, so it cannot safely run Python code
between fork and exec, and runs this script instead.
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
