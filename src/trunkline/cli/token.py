"""`trunkline token create | ls | revoke | rotate | explain`: keys and sessions of the hub."""

import sys
from typing import Annotated, Any

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit
from trunkline.cli.hub import on_hub
from trunkline.cli.output import aligned, counted, json_document, one_line
from trunkline.cli.usage import command, group

app = group("Keys and sessions of the hub.")

Name = Annotated[
    str, typer.Argument(metavar="TOKEN", help="Id of the token, or its prefix as `ls` shows it.")
]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_TITLES = ("ID", "PREFIX", "KIND", "PRINCIPAL", "SCOPES", "STATUS", "EXPIRES", "LAST USED")


def duration(given: str | int) -> int:
    """Seconds of `90`, `15m`, `12h` or `30d`."""
    given = str(given)
    unit = _UNITS.get(given[-1:], 0)
    number = given[:-1] if unit else given
    if not number.isascii() or not number.isdigit():
        raise typer.BadParameter(f'expected a time, such as 90s, 15m, 12h or 30d, got "{given}".')
    return int(number) * (unit or 1)


Expires = Annotated[
    int | None,
    typer.Option(
        "--expires", parser=duration, metavar="TIME", help="End after this time, such as 30d."
    ),
]


@command(app, "create")
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the service; it calls as token:NAME.")
    ],
    *,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="HANDLE", help="Agent that it may call: OWNER/SLUG, OWNER/* or *."),
    ] = None,
    open_agents: Annotated[
        bool, typer.Option("--open", help="It may call every public and unlisted agent.")
    ] = False,
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="SCOPE", help="read, call or admin.", show_default="call"),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Operation that it may call, such as SendMessage.",
            show_default="all of the scopes",
        ),
    ] = None,
    owner: Annotated[
        str,
        typer.Option(help="With the scope admin: manage the agents of this owner alone."),
    ] = "",
    expires: Expires = None,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Create a key for a service, and print it once.

    Everything that no option grants is denied. The gateway keeps only a digest of the key. --agent,
    --scope and --method may be given more than once.
    """
    given: dict[str, Any] = {
        "name": name,
        "agents": agent or [],
        "open": open_agents,
        "scopes": scope or ["call"],
        "methods": method or [],
        "owner": owner,
        "expiresInSeconds": expires,
    }
    _print_issued(on_hub(flags, "hub.token.create", given), output)


@command(app, "ls")
def ls(
    *,
    principal: Annotated[
        str, typer.Option(metavar="ID", help="Only tokens of this principal, such as token:ci.")
    ] = "",
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """List tokens, without their secrets. Those that have ended are shown for 30 days."""
    items: list[dict[str, Any]] = []
    given: dict[str, Any] = {"principal": principal}
    while True:
        page = on_hub(flags, "hub.token.list", given)
        items += page["items"]
        if not page["has_more"]:
            break
        given["after"] = items[-1]["id"]
    items.sort(key=lambda each: (each["createdAt"], each["id"]))
    print(json_document({"items": items}) if output == "json" else _table(items))


@command(app, "revoke")
def revoke(name: Name, *, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """Revoke a token.

    When the command ends, every gateway of the store refuses it, and all tokens that were given for
    it.
    """
    _print_one(on_hub(flags, "hub.token.revoke", {"name": name}), output)


@command(app, "rotate")
def rotate(
    name: Name,
    *,
    overlap: Annotated[
        int,
        typer.Option(parser=duration, metavar="TIME", help="For how long the old key stays valid."),
    ] = 0,
    expires: Expires = None,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Replace a key by a new one of the same rights, and print it once."""
    rotation = {"overlapSeconds": overlap, "expiresInSeconds": expires}
    given = {"name": name, "rotation": rotation}
    _print_issued(on_hub(flags, "hub.token.rotate", given), output)


@command(app, "explain")
def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="TOKEN", help="Id or prefix of the token; with -, the token itself from stdin."
        ),
    ],
    *,
    agent: Annotated[str, typer.Option(metavar="OWNER/SLUG", help="The agent of the call.")],
    operation: Annotated[
        str, typer.Option(metavar="NAME", help="The operation of the call.")
    ] = "SendMessage",
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> Exit:
    """Say why a call with a token is allowed or refused.

    Ends with 1 if it is refused. A token from stdin does not leave this program: only its digest
    does.
    """
    from trunkline.hub.token_values import digest_of, id_of

    if name == "-":
        name = id_of(digest_of(sys.stdin.read().strip().encode()))
    given = {"name": name, "agent": agent, "operation": operation}
    found = on_hub(flags, "hub.token.explain", given)
    if output == "json":
        print(json_document(found))
    else:
        print(f"{'allowed' if found['allowed'] else 'refused'}: {one_line(found['text'])}")
    return Exit.DONE if found["allowed"] else Exit.FAILED


def _print_issued(issued: dict[str, Any], output: options.Form) -> None:
    if output == "json":
        print(json_document(issued))
        return
    # Alone on stdout, for scripts.
    print(issued["token"])
    ends = f", valid until {issued['expiresAt']}" if issued["expiresAt"] else ""
    print(f"{issued['id']}{ends}. The token is shown only now.", file=sys.stderr)


def _print_one(token: dict[str, Any], output: options.Form) -> None:
    print(json_document(token) if output == "json" else _table([token]))


def _table(items: list[dict[str, Any]]) -> str:
    if not items:
        return "no tokens"
    rows = [_TITLES] + [
        (
            each["id"],
            each["prefix"],
            each["kind"],
            one_line(each["principal"]),
            ",".join(each["scopes"]),
            each["status"],
            each["expiresAt"] or "-",
            each["lastUsedAt"] or "-",
        )
        for each in items
    ]
    lines = aligned(rows)
    return "\n".join([*lines, counted(len(items), "token")] if len(items) > 1 else lines)
