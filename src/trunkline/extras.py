"""How to install packages that not everybody needs."""

import shlex
import sys


def install_command(extra: str) -> str:
    # With the Python that lacks them: the `pip` of the shell may be that of another.
    return f"{shlex.quote(sys.executable)} -m pip install 'trunkline[{extra}]'"
