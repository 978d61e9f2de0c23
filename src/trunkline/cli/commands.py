"""All commands; a new one is a file and a line here."""

import platform
from typing import Annotated

import typer

from trunkline.cli import (
    agent,
    attach,
    audit,
    calls,
    config,
    db,
    doctor,
    mcp,
    nodes,
    relay,
    reload,
    serve,
    session,
    token,
    tool,
)
from trunkline.cli import open as open_command
from trunkline.cli.options import Debug, Output
from trunkline.cli.remote import card, login, send, targets, tasks
from trunkline.cli.usage import Commands, command
from trunkline.cli.user import app as users
from trunkline.version import VERSION

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
    rich_markup_mode=None,
    # Wider lines are harder to read.
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
command(app, "serve", panel=RUNNING)(serve.serve)
command(app, "attach", panel=RUNNING)(attach.attach)
command(app, "open", panel=RUNNING)(open_command.open_page)
app.add_typer(agent.app, name="agent", rich_help_panel=RUNNING)
app.add_typer(relay.app, name="relay", rich_help_panel=RUNNING)
command(app, "send", panel=CALLING)(send.send)
command(app, "stream", panel=CALLING)(send.stream)
command(app, "watch", panel=CALLING)(send.watch)
command(app, "status", panel=CALLING)(tasks.status)
command(app, "list", panel=CALLING)(tasks.list_tasks)
command(app, "cancel", panel=CALLING)(tasks.cancel)
command(app, "card", panel=CALLING)(card.card)
command(app, "targets", panel=CALLING)(targets.targets)
command(app, "login", panel=CALLING)(login.login)
command(app, "logout", panel=CALLING)(login.logout)
command(app, "tool", panel=CALLING)(tool.tool)
command(app, "mcp", panel=CALLING)(mcp.mcp)
command(app, "reload", panel=KEEPING)(reload.reload)
command(app, "nodes", panel=KEEPING)(nodes.nodes)
command(app, "doctor", panel=KEEPING)(doctor.doctor)
app.add_typer(calls.app, name="calls", rich_help_panel=KEEPING)
app.add_typer(session.app, name="session", rich_help_panel=KEEPING)
app.add_typer(token.app, name="token", rich_help_panel=KEEPING)
app.add_typer(audit.app, name="audit", rich_help_panel=KEEPING)
app.add_typer(config.app, name="config", rich_help_panel=KEEPING)
app.add_typer(db.app, name="db", rich_help_panel=KEEPING)
app.add_typer(users, name="user", rich_help_panel=KEEPING)


@command(app, "version", panel=KEEPING, has_debug=False)
def version(output: Output = "text") -> None:
    """Print the version."""
    if output == "json":
        import json

        print(json.dumps({"version": VERSION, "python": platform.python_version()}))
    else:
        print(f"trunkline {VERSION}")


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
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
