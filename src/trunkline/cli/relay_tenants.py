"""`trunkline relay tenant | token | deny | allow | denied | agents`: the tenants of a relay."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.output import aligned, counted, json_document, one_line
from trunkline.cli.relay_store import on_relay, operator_store
from trunkline.cli.token import duration
from trunkline.cli.usage import command, group

tenants = group("Tenants of the relay.")

Name = Annotated[str, typer.Argument(metavar="TENANT", help="Name of the tenant.")]
Tenant = Annotated[str, typer.Option(metavar="NAME", help="The tenant of the token.")]
# No token lasts longer.
_LONGEST_S = 24 * 3600
_TENANT_TITLES = ("NAME", "STATUS", "FROM", "SECRETS", "KEYS")
_AGENT_TITLES = ("AGENT", "STATE", "HOST", "SESSION", "REQUESTS")
_DENIAL_TITLES = ("WHAT", "NAME", "TENANT", "SINCE")


def at_most_a_day(given: str | int) -> int:
    found = duration(given)
    if found > _LONGEST_S:
        raise typer.BadParameter(f'expected a time of up to 24h, got "{given}".')
    return found


@command(tenants, "add")
def add(name: Name, *, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """Add a tenant, and print its secret once.

    The secret signs the tokens of the tenant with HS256. `relay token` makes tokens with it; give
    it to a tenant that makes its own.
    """
    _print_secret(on_relay(flags, "relay.tenant.add", {"name": name}), output)


@command(tenants, "list")
def list_tenants(*, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """List the tenants, without their secrets."""
    items = on_relay(flags, "relay.tenant.list", {})["items"]
    print(json_document({"items": items}) if output == "json" else _tenant_table(items))


@command(tenants, "disable")
def disable(name: Name, *, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """Refuse all tokens of a tenant, and end the sessions of its gateways.

    When the command ends, every node of the relay does so.
    """
    _print_tenant(on_relay(flags, "relay.tenant.disable", {"name": name}), output)


@command(tenants, "enable")
def enable(name: Name, *, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """Accept the tokens of a disabled tenant again."""
    _print_tenant(on_relay(flags, "relay.tenant.enable", {"name": name}), output)


@command(tenants, "rotate")
def rotate(
    name: Name,
    *,
    grace: Annotated[
        int,
        typer.Option(
            parser=at_most_a_day,
            metavar="TIME",
            help="For how long tokens of the old secret count, up to 24h.",
            show_default="24h",
        ),
    ] = _LONGEST_S,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Replace the secret of a tenant by a new one, and print it once.

    With --grace 0 all tokens of the tenant end at once.
    """
    given = {"name": name, "graceSeconds": grace}
    _print_secret(on_relay(flags, "relay.tenant.rotate", given), output)


@command(tenants, "remove")
def remove(name: Name, *, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """Remove a tenant with its secrets, for good.

    Its agents are detached, and messages that wait for them are not delivered; it prints how many.
    Its name stays taken. `relay tenant disable` can be taken back.
    """
    attached, waiting = _attached(flags, name), _waiting(flags, name)
    removed = on_relay(flags, "relay.tenant.remove", {"name": name})
    if output == "json":
        print(json_document({**removed, "detachedAgents": attached, "lostMessages": waiting}))
        return
    lost = [f"detached {', '.join(attached)}"] if attached else []
    lost += [f"{counted(waiting, 'message')} will not be delivered"] if waiting else []
    print("; ".join([f"removed {name}", *lost]))


def _attached(flags: options.StoreFlags, tenant: str) -> list[str]:
    """The agents of a tenant that are attached to the running relay."""
    from trunkline.app.operator_client import NotRunning, call_gateway

    try:
        items = call_gateway(operator_store(flags), "relay.agents")["items"]
    except NotRunning:
        return []
    return [each["agent"] for each in items if each["agent"].startswith(f"{tenant}/")]


def _waiting(flags: options.StoreFlags, tenant: str) -> int:
    """How many messages wait for the agents of a tenant."""
    items = on_relay(flags, "relay.mail.list", {})["items"]
    return sum(each["waiting"] for each in items if each["agent"].startswith(f"{tenant}/"))


def token(
    *,
    tenant: Tenant,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="For a gateway: the agent that it attaches. Repeatable."),
    ] = None,
    client: Annotated[str, typer.Option(metavar="NAME", help="For a caller: its name.")] = "",
    scopes: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="For a caller: message:send, message:stream, tasks:read, tasks:write and "
            "agents:read, with commas.",
            show_default="all operations",
        ),
    ] = "",
    expires: Annotated[
        int,
        typer.Option(
            "--expires",
            parser=at_most_a_day,
            metavar="TIME",
            help="End after this time, up to 24h.",
            show_default="24h",
        ),
    ] = _LONGEST_S,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Make a token for a gateway that attaches agents, or for a caller, and print it once.

    It is signed with the secret of the tenant, and the relay does not keep it. A gateway can have
    its token in a file (`relay.token_path`), into which a timer writes a new one.
    """
    given: dict[str, Any] = {
        "tenant": tenant,
        "agents": agent or [],
        "client": client,
        "expiresInSeconds": expires,
    }
    if scopes:
        given["scopes"] = scopes.replace(",", " ").split()
    made = on_relay(flags, "relay.token", given)
    if output == "json":
        print(json_document(made))
        return
    # Alone on stdout, for scripts.
    print(made["token"])
    end = f"valid until {made['expiresAt']}, jti {made['jti']}"
    print(f"{end}. The token is shown only now.", file=sys.stderr)


Jti = Annotated[
    str,
    typer.Argument(metavar="JTI", help="Id of the token, its claim jti.", show_default=False),
]
Subject = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="All tokens of this subject instead: their claim sub or user_id, or their principal.",
    ),
]
OfTenant = Annotated[
    str, typer.Option(metavar="NAME", help="Only in this tenant.", show_default="in all tenants")
]


def deny(
    jti: Jti = "",
    *,
    subject: Subject = "",
    tenant: OfTenant = "",
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Refuse a token, or all tokens of a subject, until `relay allow`.

    With - it reads the token itself from stdin, which does not leave this program. When the command
    ends, every node of the relay refuses them, and the sessions of gateways that attached with them
    have ended.
    """
    if jti == "-":
        jti, tenant = _read_token(sys.stdin.read())
    denied = on_relay(flags, "relay.deny", _denial(jti, subject, tenant))
    print(json_document(denied) if output == "json" else _denial_table([denied]))


def allow(
    jti: Jti = "",
    *,
    subject: Subject = "",
    tenant: OfTenant = "",
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Take a denial back."""
    allowed = on_relay(flags, "relay.allow", _denial(jti, subject, tenant))
    print(json_document(allowed) if output == "json" else f"allowed {allowed['name']}")


def denied(*, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """List what is denied."""
    items = on_relay(flags, "relay.denied", {})["items"]
    if output == "json":
        print(json_document({"items": items}))
    else:
        print(_denial_table(items) if items else "nothing is denied")


def agents(*, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """List the agents that are attached to the running relay.

    Of several nodes, it asks the one on this machine, which knows more of its own. Ends with 15 if
    none is running.
    """
    from trunkline.app.operator_client import NotRunning, call_gateway

    try:
        items = call_gateway(operator_store(flags), "relay.agents")["items"]
    except NotRunning as error:
        complain(error.message)
        return Exit.NOT_RUNNING
    if output == "json":
        print(json_document({"items": items}))
        return Exit.DONE
    rows = [
        (
            each["agent"],
            each["state"],
            one_line(each["host"]) or "-",
            each["session"] or "-",
            str(each["requests"]),
        )
        for each in items
    ]
    print(_table(_AGENT_TITLES, rows, "agent"))
    return Exit.DONE


def add_to(app: typer.Typer) -> None:
    """The commands that are in no group of their own."""
    for function in (token, deny, allow, denied, agents):
        command(app, function.__name__)(function)


def _read_token(text: str) -> tuple[str, str]:
    """The id and the tenant of a token."""
    from trunkline.protocol.jwt import read_jwt

    token = read_jwt(text.strip().encode("utf-8", "replace"))
    if token is None:
        raise typer.BadParameter("what stdin has is no JSON Web Token.")
    jti, tenant = token.claims.get("jti"), token.claims.get("tenant")
    if not isinstance(jti, str) or not isinstance(tenant, str):
        raise typer.BadParameter(
            "the token has no id (jti) or no tenant; deny its --subject, or rotate the secret of "
            "its tenant."
        )
    return jti, tenant


def _denial(jti: str, subject: str, tenant: str) -> dict[str, Any]:
    if bool(jti) == bool(subject):
        raise typer.BadParameter("name a token by its JTI, or give --subject NAME, and not both.")
    what = "jti" if jti else "sub"
    return {"what": what, "name": jti or subject, "tenant": tenant}


def _print_secret(made: dict[str, Any], output: options.Form) -> None:
    if output == "json":
        print(json_document(made))
        return
    # Alone on stdout, for scripts.
    print(made["secret"])
    print(
        f"The secret of {made['tenant']}, with the kid {made['id']}. It is shown only now.",
        file=sys.stderr,
    )


def _print_tenant(tenant: dict[str, Any], output: options.Form) -> None:
    print(json_document(tenant) if output == "json" else _tenant_table([tenant]))


def _tenant_table(items: list[dict[str, Any]]) -> str:
    rows = [
        (
            each["name"],
            each["status"],
            each["origin"],
            str(len(each["secrets"]) + each["configuredSecrets"]),
            one_line(each["keys"]) or "-",
        )
        for each in items
    ]
    return _table(_TENANT_TITLES, rows, "tenant")


def _denial_table(items: list[dict[str, Any]]) -> str:
    rows = [
        (
            "token" if each["what"] == "jti" else "subject",
            one_line(each["name"]),
            each["tenant"] or "all",
            each["createdAt"],
        )
        for each in items
    ]
    return _table(_DENIAL_TITLES, rows, "denial")


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], noun: str) -> str:
    if not rows:
        return f"no {noun}s"
    lines = aligned([titles, *rows])
    return "\n".join([*lines, counted(len(rows), noun)] if len(rows) > 1 else lines)
