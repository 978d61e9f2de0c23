"""The command line: one file per command, each with its own imports inside, so that it starts fast.

Read `commands.py` (what there is), then any command. `failures.py` and `usage.py` say how errors
end, `exits.py` has the exit codes, and `remote/` the commands that call other agents.
"""

__all__ = ["main"]


def main() -> None:
    from trunkline.cli.commands import app
    from trunkline.cli.program import program

    app(prog_name=program())
