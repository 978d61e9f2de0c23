import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import agent, made

from trunkline.settings import StoreSettings, effective, from_document, schema
from trunkline.settings.show import to_toml
from trunkline.settings.stores import data_dir, database_path, make_private_dir


def test_what_is_shown_can_be_read_again() -> None:
    extension = {"uri": "urn:x", "params": {"a b": [1, {"c": 'say "hi"\n\x7f'}], "d": {}}}
    settings = made(
        agents={
            "acme/echo": agent(
                description="tab\t\\ é",
                skills=[{"id": "a"}, {"id": "b"}],
                extensions=[extension],
                extended_card={"skills": [{"id": "c"}]},
                provider={"organization": "A", "url": "https://a.example"},
            )
        }
    )
    shown = effective(settings)
    assert tomllib.loads(to_toml(shown)) == shown
    assert effective(from_document(shown)) == shown


def test_the_database_in_force_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert effective(made())["store"]["path"] == str(tmp_path / "trunkline" / "trunkline.db")
    assert effective(made(store={"kind": "memory"}))["store"]["path"] == ""
    assert database_path(StoreSettings(path="/x/y.db")) == Path("/x/y.db")


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_DATA_HOME": "/x"}, "/x/trunkline"),
        ("linux", {"XDG_DATA_HOME": "x"}, "~/.local/share/trunkline"),
        ("linux", {}, "~/.local/share/trunkline"),
        ("darwin", {}, "~/Library/Application Support/trunkline"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/trunkline"),
        ("win32", {}, "~/AppData/Local/trunkline"),
    ],
)
def test_the_data_folder(platform: str, environment: dict[str, str], expected: str) -> None:
    found = data_dir(environment=environment, platform=platform)
    assert found == Path(expected).expanduser()


def test_a_data_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    make_private_dir(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o750)
    make_private_dir(folder)
    assert folder.stat().st_mode & 0o777 == 0o750


def test_a_folder_that_cannot_be_made_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match=r"cannot create the folder .*: .* Choose another with"):
        make_private_dir(tmp_path / "file" / "x")


def test_every_key_has_a_title_and_a_description() -> None:
    bare = [
        f"{table}.{name}"
        for table, definition in schema()["$defs"].items()
        for name, key in definition["properties"].items()
        if not key.get("title") or not key.get("description")
    ]
    assert bare == []


def test_unknown_keys_are_refused_and_secrets_are_texts() -> None:
    tables: dict[str, Any] = schema()["$defs"]
    assert all(table["additionalProperties"] is False for table in tables.values())
    key = tables["ApiKey"]["properties"]["key"]
    assert {"type": "string", "format": "password"} in key["anyOf"]


def test_the_schema_is_json() -> None:
    assert json.loads(json.dumps(schema())) == schema()
