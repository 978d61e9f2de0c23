"""All commands; a new one is a file and a line here."""

from typing import Annotated

import typer

from trunkline.cli import agent, config, db, doctor, mcp, serve, tool, version
from trunkline.cli.help import command
from trunkline.cli.options import Debug
from trunkline.cli.remote import cancel, card, list, send, status, stream, targets, watch
from trunkline.cli.usage import Commands

RUNNING = "Run agents"
CALLING = "Call agents"
KEEPING = "Maintain the gateway"

app = typer.Typer(
    cls=Commands,
    help="A durable gateway for the Agent2Agent protocol (A2A).",
    epilog="Exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration. Commands "
    "that call agents have more: docs/reference/cli.md.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
command(app, "serve", panel=RUNNING)(serve.serve)
app.add_typer(agent.app, name="agent", rich_help_panel=RUNNING)
command(app, "send", panel=CALLING)(send.send)
command(app, "stream", panel=CALLING)(stream.stream)
command(app, "watch", panel=CALLING)(watch.watch)
command(app, "status", panel=CALLING)(status.status)
command(app, "list", panel=CALLING)(list.list_tasks)
command(app, "cancel", panel=CALLING)(cancel.cancel)
command(app, "card", panel=CALLING)(card.card)
command(app, "targets", panel=CALLING)(targets.targets)
command(app, "tool", panel=CALLING)(tool.tool)
command(app, "mcp", panel=CALLING)(mcp.mcp)
command(app, "doctor", panel=KEEPING)(doctor.doctor)
app.add_typer(config.app, name="config", rich_help_panel=KEEPING)
app.add_typer(db.app, name="db", rich_help_panel=KEEPING)
command(app, "version", panel=KEEPING)(version.version)


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
