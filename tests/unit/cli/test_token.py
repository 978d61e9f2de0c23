"""`trunkline token create | ls | revoke | rotate | explain` on a store that no gateway uses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trunkline.cli.commands import app


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str, given: str = "") -> Result:
        where = ("--data", str(self.folder))
        return CliRunner().invoke(app, [*words, *where], input=given)

    def token(self, *words: str, given: str = "") -> Result:
        return self.run("token", *words, given=given)

    def json(self, *words: str) -> Any:
        done = self.token(*words, "-o", "json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_key_is_printed_once_and_alone(shell: Shell) -> None:
    done = shell.token("create", "ci", "--agent", "acme/echo", "--expires", "30d")
    assert done.exit_code == 0, done.stderr
    key = done.stdout.strip()
    assert key.startswith("tl_key_")
    assert done.stdout == key + "\n"
    assert "valid until" in done.stderr
    assert key not in done.stderr
    listed = shell.token("ls")
    assert key not in listed.stdout
    assert key[:13] in listed.stdout
    (item,) = shell.json("ls")["items"]
    assert item["principal"] == "token:ci"
    assert item["agents"] == ["acme/echo"]
    assert item["createdBy"] == "local:operator"
    for file in shell.folder.rglob("*"):
        assert not file.is_file() or key[13:].encode() not in file.read_bytes()


def test_a_key_is_rotated_and_revoked_by_its_prefix(shell: Shell) -> None:
    old = shell.json("create", "ci", "--open")
    new = shell.json("rotate", old["prefix"], "--overlap", "1h")
    assert new["token"] != old["token"]
    again = shell.token("rotate", old["id"])
    assert again.exit_code == 1
    assert new["id"] in again.stderr
    assert shell.json("revoke", new["id"])["status"] == "revoked"
    assert shell.json("revoke", new["id"])["status"] == "revoked"
    assert {each["status"] for each in shell.json("ls")["items"]} == {"active", "revoked"}
    assert shell.token("revoke", "tok_unknown").exit_code == 1


def test_explain_says_why(shell: Shell) -> None:
    for slug, visibility in (("echo", "public"), ("secret", "private")):
        words = ("--backend", "echo", "--visibility", visibility, "--publish")
        assert shell.run("agent", "add", f"acme/{slug}", *words).exit_code == 0
    key = shell.json("create", "ci", "--open", "--scope", "read")

    def explained(*words: str, agent: str = "acme/echo", given: str = "") -> Result:
        return shell.token("explain", *words, "--agent", agent, given=given)

    allowed = explained(key["id"], "--operation", "GetTask")
    assert (allowed.exit_code, allowed.stdout) == (
        0,
        "allowed: token:ci may call GetTask of acme/echo.\n",
    )
    refused = explained("-", given=key["token"] + "\n")
    assert (refused.exit_code, refused.stdout) == (
        1,
        "refused: token:ci may call SendMessage of acme/echo, but the token is limited to scopes "
        "read.\n",
    )
    assert "is private" in explained(key["id"], agent="acme/secret").stdout
    assert "no agent acme/nothing" in explained(key["id"], agent="acme/nothing").stdout
    shell.run("agent", "unpublish", "acme/echo")
    assert "is draft" in explained(key["id"]).stdout
    shell.token("revoke", key["id"])
    assert "token is revoked" in explained(key["id"]).stdout
    unknown = explained("-", given="tl_key_" + "0" * 40)
    assert unknown.exit_code == 1
    assert "no such token" in unknown.stderr


def test_bad_options_are_refused(shell: Shell) -> None:
    for words in (
        ("create", "ci"),
        ("create", "c i", "--open"),
        ("create", "ci", "--open", "--scope", "root"),
        ("create", "ci", "--open", "--expires", "soon"),
        ("create", "ci", "--open", "--expires", "-1d"),
        ("create", "ci", "--agent", "acme"),
        ("explain", "tok_1"),
    ):
        done = shell.token(*words)
        assert done.exit_code in (1, 2), words
        assert "Traceback" not in done.stderr
    assert shell.json("ls")["items"] == []
