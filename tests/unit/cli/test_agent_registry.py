"""`trunkline agent add | ls | show | publish | unpublish | rm` on a store that no gateway uses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trunkline.cli.commands import app


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str, store: tuple[str, ...] = ()) -> Result:
        where = store or ("--data", str(self.folder))
        return CliRunner().invoke(app, ["agent", *words, *where])

    def json(self, *words: str) -> Any:
        done = self.run(*words, "-o", "json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_an_agent_is_added_shown_changed_and_removed(shell: Shell) -> None:
    done = shell.run("add", "acme/echo", "--backend", "echo", "--tagline", "Says it again")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "HANDLE     STATUS  VISIBILITY  ONLINE  BACKEND  NAME",
        "acme/echo  draft   public      no      echo     echo",
    ]
    assert shell.json("publish", "acme/echo")["status"] == "published"
    shown = shell.run("show", "ACME/echo").stdout
    assert "tagline             Says it again\n" in shown
    assert 'backend             {"kind":"echo"}\n' in shown
    assert shell.json("unpublish", "acme/echo")["status"] == "draft"
    assert shell.json("rm", "acme/echo")["status"] == "deleted"
    assert shell.run("ls").stdout == "no agents\n"
    assert [each["handle"] for each in shell.json("ls", "--status", "deleted")["items"]] == [
        "acme/echo"
    ]
    assert shell.json("publish", "acme/echo")["tagline"] == "Says it again"


def test_set_changes_what_is_given_and_replaces_a_backend(shell: Shell) -> None:
    shell.json("add", "acme/x", "--backend", "echo", "--tagline", "stays", "--publish")
    agent = shell.json("set", "acme/x", "--name", "New", "--daily-budget", "0", "--composable")
    assert (agent["name"], agent["tagline"], agent["status"]) == ("New", "stays", "published")
    assert (agent["dailyBudgetQueries"], agent["isolated"]) == (0, False)
    secret = shell.folder / "token"
    secret.write_text("from-a-file\n")
    words = ("url=https://upstream.example", "--backend", "a2a", "--isolated")
    agent = shell.json("set", "acme/x", *words)
    assert (agent["backend"]["kind"], agent["isolated"]) == ("a2a", True)
    agent = shell.json(
        "set", "acme/x", "--backend", "openai", f"api_key=@{secret}", "model=m", "base_url=http://h"
    )
    assert agent["backend"] == {
        "kind": "openai",
        "api_key": "***",
        "model": "m",
        "base_url": "http://h",
    }
    nothing = shell.run("set", "acme/x")
    assert (nothing.exit_code, "nothing is to be changed" in nothing.stderr) == (2, True)
    alone = shell.run("set", "acme/x", "url=https://other.example")
    assert (alone.exit_code, "--backend" in alone.stderr) == (2, True)
    missing = shell.run("set", "acme/x", "--backend", "openai", "api_key=@/no/such/file")
    assert (missing.exit_code, "no such file" in missing.stderr) == (2, True)


def test_keys_of_the_backend_are_json_or_texts(shell: Shell) -> None:
    agent = shell.json(
        "add",
        "acme/up",
        "url=https://upstream.example/rpc",
        "timeout_s=5",
        'credentials={"kind": "bearer", "token": "long-secret"}',
        "--backend",
        "a2a",
        "--daily-budget",
        "7",
        "--visibility",
        "private",
        "--composable",
    )
    assert agent["backend"] == {
        "kind": "a2a",
        "url": "https://upstream.example/rpc",
        "timeout_s": 5,
        "credentials": {"kind": "bearer", "token": "***"},
    }
    assert (agent["dailyBudgetQueries"], agent["visibility"]) == (7, "private")
    assert agent["isolated"] is False
    assert "long-secret" not in shell.run("show", "acme/up", "-o", "json").stdout


@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_file_holds_the_table_of_an_agent(shell: Shell, form: str) -> None:
    file = shell.folder / f"agent.{form}"
    if form == "toml":
        file.write_text(
            'name = "Rust"\nretention_s = 60.0\nprofile = "standard"\n'
            'backend = { kind = "echo" }\nlimits = { concurrency_cap = 2 }\n'
            '[[skills]]\nid = "ask"\ninput_modes = ["text/plain"]\n'
        )
    else:
        table = {
            "name": "Rust",
            "retention_s": 60.0,
            "profile": "standard",
            "backend": {"kind": "echo"},
            "limits": {"concurrency_cap": 2},
            "skills": [{"id": "ask", "input_modes": ["text/plain"]}],
        }
        file.write_text(json.dumps(table))
    agent = shell.json("add", "acme/rust", "--file", str(file), "--name", "Rust expert")
    assert (agent["name"], agent["concurrencyCap"]) == ("Rust expert", 2)
    assert agent["settings"] == {"retention_s": 60.0}
    assert agent["skills"] == [{"id": "ask", "inputModes": ["text/plain"]}]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("add", "acme/x"), 2, "--backend"),
        (("add", "acme/x", "url", "--backend", "a2a"), 2, '"url": expected KEY=VALUE'),
        (("add", "acme/x", "--backend", "ech"), 1, 'Did you mean "echo"?'),
        (("add", "acme", "--backend", "echo"), 1, "OWNER/SLUG"),
        (("add", "acme/X", "--backend", "echo"), 1, "slug: must be"),
        (("add", "acme/x", "--backend", "echo", "--profile", "no"), 1, "profile"),
        (("add", "acme/x", "--backend", "echo", "--daily-budget", "-1"), 1, "dailyBudgetQueries"),
        (("show", "acme/none"), 1, "there is no agent acme/none in the registry"),
        (("publish", "acme/none"), 1, "there is no agent acme/none"),
        (("rm", "acme/none"), 1, "there is no agent acme/none"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    shell: Shell, words: tuple[str, ...], code: int, says: str
) -> None:
    done = shell.run(*words)
    assert (done.exit_code, says in done.stderr) == (code, True), done.stderr
    assert shell.json("ls")["items"] == []


def test_an_agent_of_the_file_is_not_in_the_registry(shell: Shell) -> None:
    file = shell.folder / "t.toml"
    file.write_text(
        "[hub]\n[store]\npath = 'own.db'\n"
        '[agents."acme/conf"]\nname = "Conf"\nbackend = { kind = "echo" }\n'
    )
    config = ("--config", str(file))
    done = shell.run("add", "ACME/conf", "--backend", "echo", store=config)
    assert (done.exit_code, "acme/conf already" in done.stderr) == (1, True)
    done = shell.run("show", "acme/conf", store=config)
    assert (done.exit_code, "change it there" in done.stderr) == (1, True)
    assert shell.run("add", "acme/own", "--backend", "echo", store=config).exit_code == 0
    assert (shell.folder / "own.db").exists()


def test_a_store_in_memory_has_no_registry_without_its_gateway(shell: Shell) -> None:
    done = shell.run("ls", store=("--db", "memory:"))
    assert (done.exit_code, "in memory" in done.stderr) == (1, True)


def test_a_list_is_searched(shell: Shell) -> None:
    for slug in ("one", "two"):
        shell.json("add", f"acme/{slug}", "--backend", "echo", "--tagline", f"Number {slug}")
    shell.json("add", "zoo/one", "--backend", "echo")
    found = shell.json("ls", "number", "one")["items"]
    assert [each["handle"] for each in found] == ["acme/one"]
    assert len(shell.json("ls", "--owner", "ZOO")["items"]) == 1
    assert shell.run("ls").stdout.endswith("3 agents\n")


def test_the_json_file_store_keeps_agents_as_well(shell: Shell) -> None:
    store = ("--db", f"json-file:///{shell.folder}/tasks")
    assert shell.run("add", "acme/echo", "--backend", "echo", store=store).exit_code == 0
    assert "acme/echo" in shell.run("ls", store=store).stdout
