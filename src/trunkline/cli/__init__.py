"""The command line: one file per command, each with its own imports inside, so that it starts fast.

Read `commands.py` (all commands), then any command. `usage.py` makes a function a command,
`options.py` has the flags that commands share and the settings behind them, `exit_codes.py` the
end of a command, `output.py` its texts, and `remote/` the commands that call other agents.
"""

__all__ = ["main"]


def main() -> None:
    from trunkline.cli.commands import app
    from trunkline.cli.output import program

    app(prog_name=program())
