"""The command line: one file per command, each with its own imports inside, so that it starts fast.

Read `commands.py` (what there is), then any command. `failures.py` says how errors end, with
the exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration.
"""

__all__ = ["main"]


def main() -> None:
    from trunkline.cli.commands import app

    app(prog_name="trunkline")
