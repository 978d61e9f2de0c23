"""How the command was started, for lines that are to be copied to a shell."""

import os


def program() -> str:
    # ./trunkline of a checkout says so here: there, plain `trunkline` is not found.
    return os.environ.get("TRUNKLINE_PROGRAM") or "trunkline"
