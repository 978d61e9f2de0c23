"""All commands; a new one is a file and a line here."""

from typing import Annotated

import typer

from trunkline.cli import config, db, serve, version
from trunkline.cli.options import Debug

app = typer.Typer(
    help="A durable gateway for the Agent2Agent protocol (A2A).",
    epilog="Exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.add_typer(config.app, name="config")
app.add_typer(db.app, name="db")
app.command("version")(version.version)


def _print_version(wanted: bool) -> None:
    if wanted:
        version.version()
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
