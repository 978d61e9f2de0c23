"""`trunkline user add | ls | passwd | disable | enable | rm` on a store that no gateway uses."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trunkline.app.adapters import make_store
from trunkline.app.hub import Hub
from trunkline.cli.commands import app
from trunkline.clock import SystemClock
from trunkline.hub.users import Identity
from trunkline.settings import from_document

PASSWORD = "correct horse"
PROVIDERS = """
[hub.sign_in.providers.github]
kind = "github"
client_id = "id"
client_secret = "a secret of the provider"
"""


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config: tuple[str, ...] = ()

    def user(self, *words: str, given: str | bytes = PASSWORD + "\n") -> Result:
        where = ("--data", str(self.folder / "data"), *self.config)
        return CliRunner().invoke(app, ["user", *words, *where], input=given)

    def users(self) -> list[dict[str, Any]]:
        done = self.user("ls", "-o", "json")
        assert done.exit_code == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["users"]
        return found

    def stored(self) -> bytes:
        files = (self.folder / "data").rglob("*")
        return b"".join(file.read_bytes() for file in files if file.is_file())


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    return Shell(tmp_path)


async def add_to_store(data: Path, logins: Sequence[str]) -> None:
    table = {"kind": "sqlite", "path": str(data / "trunkline.db")}
    settings = from_document({"hub": {}, "store": table}, environment={})
    assert settings.hub is not None
    clock = SystemClock()
    store = make_store(settings.store, agent=settings.adopting_agent(settings.store), clock=clock)
    await store.open()
    hub = Hub(settings.hub, gateway=settings, base_url="", clock=clock)
    await hub.open_alone(store, settings)
    for login in logins:
        await hub.sign_in.users.add(login, identity=Identity("https://id.example", login))
    await hub.close()
    await store.close()


def refused(done: Result, text: str, *, code: int = 1) -> None:
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_user_is_added_with_the_password_on_stdin(shell: Shell) -> None:
    done = shell.user("add", "ada", "--name", "Ada")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "ada: added\n", "")
    (listed,) = shell.users()
    assert listed.pop("created").endswith("Z")
    assert listed == {
        "login": "ada",
        "display_name": "Ada",
        "is_admin": False,
        "is_disabled": False,
        "has_password": True,
        "issuer": "",
    }
    assert PASSWORD.encode() not in shell.stored()
    assert b"$argon2id$" in shell.stored()


def test_only_the_first_line_of_stdin_is_the_password(shell: Shell) -> None:
    refused(shell.user("add", "ada", given="short\nand a longer line\n"), "fewer than 10")
    assert shell.user("add", "ada", given=PASSWORD).exit_code == 0


def test_an_admin_is_shown_as_one(shell: Shell) -> None:
    done = shell.user("add", "ada", "--admin", "-o", "json")
    shown = json.loads(done.stdout)
    assert (shown["login"], shown["is_admin"], shown["is_disabled"]) == ("ada", True, False)
    assert "password_hash" not in shown
    shell.user("add", "bob")
    rows = [line.split() for line in shell.user("ls").stdout.splitlines()]
    assert rows[0] == ["LOGIN", "NAME", "ROLE", "SIGN-IN", "SINCE"]
    assert [(row[0], row[-3], row[-2]) for row in rows[1:]] == [
        ("ada", "admin", "password"),
        ("bob", "-", "password"),
    ]


def test_no_users_are_listed_as_such(shell: Shell) -> None:
    done = shell.user("ls")
    assert (done.exit_code, done.stdout) == (0, "no users\n")
    assert shell.users() == []


def test_a_name_cannot_add_lines_to_the_table(shell: Shell) -> None:
    shell.user("add", "ada", "--name", "Ada\x1b[2J\nmallory  Mallory  admin")
    listed = shell.user("ls").stdout
    assert len(listed.splitlines()) == 2
    assert "\x1b" not in listed


def test_a_user_of_a_provider_has_no_password(shell: Shell) -> None:
    file = shell.folder / "trunkline.toml"
    file.write_text(PROVIDERS)
    shell.config = ("--config", str(file))
    done = shell.user("add", "ada", "--provider", "github", "--subject", "12345", given="")
    assert (done.exit_code, done.stdout) == (0, "ada: added\n"), done.stderr
    (listed,) = shell.users()
    assert listed["has_password"] is False
    assert listed["issuer"] == "https://github.com"
    assert "https://github.com" in shell.user("ls").stdout
    taken = shell.user("add", "bob", "--provider", "github", "--subject", "12345")
    refused(taken, "its account at the provider, is taken")
    refused(shell.user("add", "bob", "--provider", "github"), "subject: must have 1 to 255")
    refused(
        shell.user("add", "bob", "--provider", "gitlab", "--subject", "1"),
        "provider: must be one of the configuration: github",
    )
    refused(shell.user("add", "bob", "--subject", "1"), "provider: must be one of")
    assert [user["login"] for user in shell.users()] == ["ada"]


def test_a_password_is_changed(shell: Shell) -> None:
    shell.user("add", "ada")
    before = shell.stored()
    done = shell.user("passwd", "ada", given="another password\n")
    assert (done.exit_code, done.stdout) == (0, "ada: has a new password\n")
    assert shell.stored() != before
    refused(shell.user("passwd", "ada", given="short"), "password: has fewer than 10 characters")
    shown = json.loads(shell.user("passwd", "ada", "-o", "json").stdout)
    assert (shown["login"], shown["has_password"]) == ("ada", True)


def test_a_user_is_disabled_enabled_and_removed(shell: Shell) -> None:
    shell.user("add", "ada")
    assert shell.user("disable", "ada").stdout == "ada: disabled\n"
    assert shell.users()[0]["is_disabled"] is True
    assert shell.user("ls").stdout.splitlines()[1].endswith("disabled")
    # Twice is the same as once.
    assert shell.user("disable", "ada").exit_code == 0
    assert shell.user("enable", "ada").stdout == "ada: enabled\n"
    assert "disabled" not in shell.user("ls").stdout
    assert shell.user("rm", "ada").stdout == "ada: removed\n"
    assert shell.users() == []
    refused(shell.user("rm", "ada"), 'There is no user "ada"')
    # The login can be given again.
    assert shell.user("add", "ada").exit_code == 0


@pytest.mark.parametrize("command", ["passwd", "disable", "enable", "rm"])
def test_a_user_that_does_not_exist(shell: Shell, command: str) -> None:
    refused(shell.user(command, "nobody"), 'There is no user "nobody"')


def test_users_that_cannot_be_added(shell: Shell) -> None:
    shell.user("add", "ada")
    refused(shell.user("add", "ada"), 'The login "ada" is taken')
    refused(shell.user("add", "b@d!"), "login: has up to 64 letters, digits and hyphens")
    refused(shell.user("add", "bob", "--name", "x" * 201), "displayName: has more than 200")
    refused(shell.user("add", "bob", given=""), "password: is missing")
    refused(shell.user("add", "bob", given=b"\xff\xfe horse\n"), "is not UTF-8 text", code=2)
    assert [user["login"] for user in shell.users()] == ["ada"]


def test_the_users_of_a_store_in_memory_are_those_of_its_gateway(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text('[hub]\n[store]\nkind = "memory"\n')
    done = CliRunner().invoke(app, ["user", "ls", "--config", str(file)])
    refused(done, "in memory", code=done.exit_code)
    assert done.exit_code in (1, 2)


def test_all_pages_of_a_long_list_are_shown(shell: Shell) -> None:
    """More users than one answer of the gateway has."""
    expected = [f"user-{number:03d}" for number in range(501)]
    (shell.folder / "data").mkdir()
    asyncio.run(add_to_store(shell.folder / "data", expected))
    assert [user["login"] for user in shell.users()] == expected
    assert len(shell.user("ls").stdout.splitlines()) == 502
