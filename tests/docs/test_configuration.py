import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Struct
from msgspec.structs import fields
from tools.gen_cli_docs import commands, render
from tools.gen_config_docs import SECTIONS, profile_reference, reference

from trunkline.config.called_agents import CredentialSettings
from trunkline.hub.sign_in_settings import ProviderSettings as SignInProvider
from trunkline.model.errors import ConfigError
from trunkline.model.profile import ProfileKeys
from trunkline.settings import Settings, StoreSettings, effective, load, schema
from trunkline.settings.agents import AgentSettings
from trunkline.settings.auth import ApiKey, AuthSettings
from trunkline.settings.backends import BackendSettings
from trunkline.settings.decode import bare_type, description, is_struct
from trunkline.settings.server import ServerSettings

DOCS = Path(__file__).parents[2] / "docs"
STALE = "is stale: run tools/gen_config_docs.py and tools/gen_cli_docs.py"


def structs(kind: Any) -> set[type[Struct]]:
    """Every struct that the settings reach."""
    bare = bare_type(kind)
    if is_struct(bare):
        inner = [structs(field.type) for field in fields(bare)]
        return {bare}.union(*inner)
    return set[type[Struct]]().union(*(structs(arg) for arg in get_args(bare)))


def test_every_table_of_the_settings_has_a_section() -> None:
    documented = {cls for _, cls in SECTIONS} | set(get_args(BackendSettings)) | {Settings}
    documented |= set(get_args(CredentialSettings)) | set(get_args(SignInProvider))
    assert structs(Settings) == documented
    assert {ServerSettings, StoreSettings, AuthSettings, ApiKey, AgentSettings} <= documented


@pytest.mark.parametrize("cls", sorted(structs(Settings), key=str))
def test_every_key_says_what_it_is(cls: type[Struct]) -> None:
    assert (cls.__doc__ or "").strip()
    assert [field.name for field in fields(cls) if not description(field.type)] == []


def test_the_reference_is_up_to_date() -> None:
    assert (DOCS / "reference" / "configuration.md").read_text("utf-8") == reference(), (
        f"configuration.md {STALE}"
    )


def test_the_page_of_profiles_is_up_to_date() -> None:
    page = (DOCS / "reference" / "profiles.md").read_text("utf-8")
    assert page == profile_reference(), f"profiles.md {STALE}"


@pytest.mark.parametrize("key", ProfileKeys.__struct_fields__)
def test_every_key_of_a_profile_is_documented(key: str) -> None:
    assert f"\n| `{key}` |" in (DOCS / "reference" / "profiles.md").read_text("utf-8")


def test_the_schema_is_up_to_date() -> None:
    stored = json.loads((DOCS / "reference" / "trunkline.schema.json").read_text("utf-8"))
    assert stored == schema(), f"trunkline.schema.json {STALE}"


def test_every_command_is_in_the_page() -> None:
    import typer

    from trunkline.cli.commands import app

    page = (DOCS / "reference" / "cli.md").read_text("utf-8")
    for name, command in commands(typer.main.get_command(app)):
        assert f"## `{name}`" in page
        for param in command.params:
            assert all(flag in page for flag in param.opts if flag.startswith("-"))
    assert page == render(), f"cli.md {STALE}"


def test_the_example_is_complete_and_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_CI_KEY", "0123456789abcdef")
    monkeypatch.setenv("TRUNKLINE_BOB_SHA256", "0" * 64)
    for name in ("SUPPORT_TOKEN", "MODEL_KEY", "BILLING_KEY", "RESEARCH_SECRET", "OPENCLAW_TOKEN"):
        monkeypatch.setenv(name, "0123456789abcdef")
    file = DOCS / "examples" / "trunkline.toml"
    settings = load(file)
    assert settings.default_agent() == "acme/rust-expert"
    text = file.read_text("utf-8")
    for cls in structs(Settings) - {Settings}:
        # Those of the profile have a page of their own.
        keys = [f.name for f in fields(cls) if f.name not in ProfileKeys.__struct_fields__]
        assert [key for key in keys if key not in text] == []
    assert effective(settings)["server"]["port"] == 8642


BLOCK = re.compile(r"^```toml\n(?P<text>\[(?:agents|targets|server|remote)\b.*?)^```$", re.M | re.S)
CONFIGURATIONS = [
    pytest.param(block["text"], id=f"{page.relative_to(DOCS)}:{block.start()}")
    for page in sorted(DOCS.rglob("*.md"))
    for block in BLOCK.finditer(page.read_text("utf-8"))
    if "[agents." in block["text"] or "[targets." in block["text"]
]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_configurations_on_the_pages_load(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(name, "0123456789abcdef")
    file = tmp_path / "trunkline.toml"
    file.write_text(text)
    try:
        load(file)
    except ConfigError as error:
        # Code and folders that a page talks of need not be there.
        lines = [line for line in str(error).splitlines() if "no such f" not in line]
        assert [line for line in lines if not line.endswith(" problems:")] == []


def test_there_are_configurations_on_the_pages() -> None:
    assert len(CONFIGURATIONS) > 10


@pytest.mark.parametrize("page", [reference(), profile_reference()], ids=["keys", "profiles"])
def test_no_paragraph_of_the_reference_becomes_code(page: str) -> None:
    assert [line for line in page.splitlines() if line.startswith("    ")] == []


def test_values_of_the_reference_are_written_as_in_the_file() -> None:
    assert "| `files_reject_code` | `-32005` or `-32602` | `-32005` |" in profile_reference()
