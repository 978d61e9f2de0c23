"""`trunkline user add | ls | passwd | disable | enable | rm`: people who may sign in to the hub."""

import sys
from typing import Annotated, Any

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit
from trunkline.cli.hub import on_hub
from trunkline.cli.output import aligned, json_document, one_line
from trunkline.cli.usage import command, group
from trunkline.model.errors import ConfigError

app = group("Manage the people who may sign in to the hub.")
Login = Annotated[str, typer.Argument(metavar="LOGIN", help="Login of the user.")]
_TITLES = ("LOGIN", "NAME", "ROLE", "SIGN-IN", "SINCE", "")


@command(app, "add")
def add(
    login: Login,
    *,
    name: Annotated[str, typer.Option(help="Display name.")] = "",
    admin: Annotated[
        bool, typer.Option("--admin", help="Let the user manage everything in the hub.")
    ] = False,
    provider: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Provider of the configuration at which the user signs in, instead of by a "
            "password.",
        ),
    ] = "",
    subject: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="With --provider, the id of the person there: `sub` with OpenID Connect, the "
            "number of the account at GitHub.",
        ),
    ] = "",
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> Exit:
    """Add a user.

    Asks for a password, or reads it from stdin where that is no terminal. The user owns the agents
    whose owner is the login. The login of a user who was removed can be added again; tasks and
    grants of that login are then those of the new user.
    """
    arguments: dict[str, Any] = {"login": login, "display_name": name, "is_admin": admin}
    if provider or subject:
        arguments |= {"provider": provider, "subject": subject}
    else:
        arguments["password"] = _password()
    return _told(on_hub(flags, "hub.user.add", arguments), output, "added")


@command(app, "ls")
def ls(*, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """List the users."""
    users: list[dict[str, Any]] = []
    while True:
        after = users[-1]["login"] if users else ""
        page = on_hub(flags, "hub.user.list", {"after": after})
        users += page["items"]
        if not page["has_more"]:
            break
    print(json_document({"users": users}) if output == "json" else _table(users))


@command(app, "passwd")
def passwd(login: Login, *, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Set the password of a user, and end the user's sessions.

    Asks for the password, or reads it from stdin where that is no terminal.
    """
    given = {"login": login, "password": _password()}
    return _told(on_hub(flags, "hub.user.password", given), output, "has a new password")


@command(app, "disable")
def disable(login: Login, *, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Keep a user from signing in, and revoke the user's sessions and keys."""
    given = {"login": login, "is_disabled": True}
    return _told(on_hub(flags, "hub.user.disable", given), output, "disabled")


@command(app, "enable")
def enable(login: Login, *, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Let a disabled user sign in again."""
    given = {"login": login, "is_disabled": False}
    return _told(on_hub(flags, "hub.user.disable", given), output, "enabled")


@command(app, "rm")
def rm(login: Login, *, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Remove a user, and revoke the user's sessions and keys.

    Agents and tasks stay. A sign-in through a provider never gets the login; `user add` can give it
    again.
    """
    return _told(on_hub(flags, "hub.user.remove", {"login": login}), output, "removed")


def _password() -> str:
    """Not an option, because other users of the machine see the options of a program."""
    if sys.stdin.isatty():
        given: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return given
    try:
        return sys.stdin.readline().rstrip("\n")
    except UnicodeDecodeError:
        raise ConfigError("the password on stdin is not UTF-8 text.") from None


def _told(user: dict[str, Any], output: options.Form, what: str) -> Exit:
    print(json_document(user) if output == "json" else f"{user['login']}: {what}")
    return Exit.DONE


def _table(users: list[dict[str, Any]]) -> str:
    if not users:
        return "no users"
    rows = [_TITLES] + [
        (
            user["login"],
            one_line(user["display_name"]),
            "admin" if user["is_admin"] else "-",
            one_line(user["issuer"]) or ("password" if user["has_password"] else "-"),
            user["created"],
            "disabled" if user["is_disabled"] else "",
        )
        for user in users
    ]
    return "\n".join(aligned(rows))
