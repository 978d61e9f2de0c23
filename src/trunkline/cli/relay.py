"""`trunkline relay`: runs a relay, and the screen that says how to use it."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from urllib.parse import urlsplit

import typer
from msgspec.structs import replace

from trunkline.cli import relay_mail, relay_tenants
from trunkline.cli.options import Database, DataFolder, Host, LogFormat, LogLevel, port_number
from trunkline.cli.output import has_colours, program
from trunkline.cli.relay_store import relay_overrides, store_words
from trunkline.cli.serve import prepare_folders, print_draining
from trunkline.cli.usage import default_command, group
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.app.serve import ServeInfo
    from trunkline.settings import Settings

app = group("Run a relay, and manage its tenants.", has_default=True)
app.add_typer(relay_tenants.tenants, name="tenant")
app.add_typer(relay_mail.mail, name="mail")
relay_tenants.add_to(app)


def tenant_name(given: str) -> str:
    from trunkline.relay.tenants.jwt_claims import is_tenant

    if not is_tenant(given):
        raise typer.BadParameter(
            f'expected up to 64 letters, digits and hyphens, got "{given[:100]}".'
        )
    return given


@default_command(app)
def relay(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            envvar="TRUNKLINE_CONFIG",
            help="Configuration file (TOML). None is read by default.",
        ),
    ] = None,
    host: Host = None,
    port: Annotated[
        int | None,
        typer.Option(
            parser=port_number,
            metavar="PORT",
            help="Port to listen on; 0 chooses a free port.",
            show_default="8642",
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address by which others reach the relay through a proxy."
        ),
    ] = None,
    tenant: Annotated[
        str,
        typer.Option(
            parser=tenant_name,
            metavar="NAME",
            help="Name of the tenant that the first start makes.",
        ),
    ] = "personal",
    data: DataFolder = None,
    db: Database = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> int:
    """Run a relay: gateways attach their agents to it, and callers reach the agents here.

    It needs no configuration. The first start makes a tenant and prints, on a terminal, tokens for
    a gateway and for a caller. Its records are in relay.db in the user's data folder, unless a
    configuration file or an option says otherwise.

    With a command it manages the tenants of the relay, whether it runs or not.
    """
    from trunkline.settings import from_document
    from trunkline.settings import load as load_file
    from trunkline.settings.environment import literal

    given = {
        "host": host,
        "port": port,
        "public_url": public_url,
        "log_level": log_level,
        "log_format": log_format,
    }
    overrides: dict[str, Any] = {
        "server": {key: literal(value) for key, value in given.items() if value is not None},
        "relay_server": {},
        **relay_overrides(config, data, db),
    }

    def load() -> tuple["Settings", tuple[str, ...]]:
        if config is None:
            return from_document(overrides, source="the command line"), ()
        return load_file(config, overrides=overrides), ()

    settings, notes = load()
    _check(settings, str(config))
    prepare_folders(settings)
    # Imported here because it loads the whole gateway, which no other command needs.
    from trunkline.app.serve import serve as serve_gateway

    words = store_words(config, data, db)
    return serve_gateway(
        settings,
        load=load,
        on_ready=lambda started: announce(started, tenant=tenant, words=words, notes=notes),
        on_waiting=lambda: print_draining(settings.server.drain_s),
        first_tenant=tenant,
    )


def _check(settings: "Settings", file: str) -> None:
    """Raises ConfigError."""
    from trunkline.settings.server import is_loopback_host

    if settings.agents:
        raise ConfigError(
            f"{file} has agents, and `{program()} relay` only relays. Serve both with: "
            f"{program()} serve --config {shlex.quote(file)}"
        )
    host, public_url = settings.server.host, settings.server.public_url
    if not is_loopback_host(host) and not public_url.startswith("https://"):
        raise ConfigError(
            f"host {host}: tokens would cross the network unencrypted, and gateways refuse to "
            "attach that way. Put a proxy with TLS in front of the relay (docs/guides/proxy.md), "
            "and give its address with --public-url https://relay.example.com; without --host the "
            "relay listens on this machine alone"
        )


def announce(
    started: "ServeInfo",
    *,
    tenant: str,
    words: Sequence[str] = (),
    notes: Sequence[str] = (),
    out: TextIO | None = None,
) -> None:
    stream = out if out is not None else sys.stdout
    if not stream.isatty():
        # Logs are kept, and live tokens must not be in them.
        started = replace(started, first_tenant=None)
    text = screen(started, tenant=tenant, words=words, notes=notes, coloured=has_colours(stream))
    # A supervisor reads this through a pipe and waits for it.
    print(text, file=stream, flush=True)


def screen(
    started: "ServeInfo",
    *,
    tenant: str,
    words: Sequence[str] = (),
    notes: Sequence[str] = (),
    coloured: bool = False,
) -> str:
    """`words` are the options that name the store, for commands to copy."""

    def label(name: str) -> str:
        return f"\x1b[1m{name:<9}\x1b[0m" if coloured else f"{name:<9}"

    rows = [("Relay", started.url)]
    if started.local_url != started.url:
        rows.append(("Local", started.local_url))
    rows.append(("Attach", started.attach_url))
    rows.append(("Tenants", _listed(started.tenants)))
    rows += [("Data", started.data), ("Access", started.auth)]
    lines = [f"{label(name)} {value}" for name, value in rows]
    lines += ["", *_how_to_use(started, tenant, words)]
    lines += ["", *(f"Note: {note}" for note in notes)] if notes else []
    return "\n".join([*lines, "", "Stop with Ctrl+C."])


def _listed(tenants: Sequence[str], at_most: int = 8) -> str:
    more = len(tenants) - at_most
    shown = ", ".join(tenants[:at_most]) or "none yet"
    return f"{shown} and {more} more" if more > 0 else shown


def _how_to_use(started: "ServeInfo", tenant: str, words: Sequence[str]) -> list[str]:
    from trunkline.app.relay.tenants import FIRST_AGENT, FIRST_CLIENT

    url = f"{started.url}/t/{tenant}/a2a/{FIRST_AGENT}"
    name = tenant if tenant in started.tenants or not started.tenants else started.tenants[0]
    new = [program(), "relay", "token", *words, "--tenant", name]
    for_host = shlex.join([*new, "--agent", FIRST_AGENT])
    for_client = shlex.join([*new, "--client", FIRST_CLIENT])
    first = started.first_tenant
    if first is None:
        return ["New tokens, for a gateway and for a caller:", f"  {for_host}", f"  {for_client}"]
    # `attach` finds the path by itself where there is none.
    relay_url = started.attach_url if urlsplit(started.url).path.strip("/") else started.url
    attach = [program(), "attach", "--relay", relay_url, "--tenant", tenant]
    attach += ["--agent", FIRST_AGENT]
    send = [program(), "send", url, "hello", "--token", first.client_token]
    return [
        "Attach an agent: the demo agent, or yours with FILE.py at the end:",
        f"  export TRUNKLINE_RELAY_TOKEN={first.host_token}",
        f"  {shlex.join(attach)}",
        "",
        "Call it:",
        f"  {shlex.join(send)}",
        "",
        "These two tokens end in 24 hours and are shown once. For new ones:",
        f"  {for_host}",
        f"  {for_client}",
    ]
