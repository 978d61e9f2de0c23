"""`trunkline config check | show | schema`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.failures import reported
from trunkline.cli.help import command
from trunkline.cli.options import ConfigFile, Debug, Form, OpenClawConfig, Output

if TYPE_CHECKING:
    from trunkline.settings import Settings

app = typer.Typer(help="Check and show configuration files.", no_args_is_help=True)


class Notation(StrEnum):
    toml = "toml"
    json = "json"


@command(app, "check")
def check(
    context: typer.Context,
    file: ConfigFile = None,
    openclaw_config: OpenClawConfig = None,
    output: Output = Form.text,
    debug: Debug = False,
) -> None:
    """Check a configuration file and print every problem in it."""
    from trunkline.model.errors import ConfigError
    from trunkline.settings.stores import place_of

    with reported(context):
        if file is None and openclaw_config is None:
            raise ConfigError("there is no file to check. Give FILE, or set TRUNKLINE_CONFIG.")
        settings, notes = _settings(file, openclaw_config)
    if output is Form.json:
        import json

        stores = [place_of(store) for store in settings.stores()]
        held = {"agents": [*settings.agents], "stores": stores, "targets": [*settings.targets]}
        print(json.dumps({"ok": True, **held, "notes": notes}, indent=2, ensure_ascii=False))
        return
    found = []
    if settings.agents:
        kept = " and ".join(map(place_of, settings.stores())) or "nothing kept"
        found.append(f"{_counted(len(settings.agents), 'agent')}, {kept}")
    if settings.targets or not settings.agents:
        found.append(_counted(len(settings.targets), "target"))
    print(f"ok: {'; '.join(found)}")
    for note in notes:
        print(f"note: {note}")


@command(app, "show")
def show(
    context: typer.Context,
    file: ConfigFile = None,
    openclaw_config: OpenClawConfig = None,
    output: Annotated[
        Notation, typer.Option("--output", "-o", help="Output format.")
    ] = Notation.toml,
    debug: Debug = False,
) -> None:
    """Print every key with its effective value; secrets are masked.

    Without a file, prints the configuration of `trunkline serve` without arguments. With
    --openclaw-config, prints that file as a trunkline.toml.
    """
    from trunkline.settings import effective
    from trunkline.settings.show import to_toml

    with reported(context):
        document = effective(_settings(file, openclaw_config)[0])
    if output is Notation.json:
        import json

        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(to_toml(document), end="")


@command(app, "schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    import json

    from trunkline.settings import schema as made

    print(json.dumps(made(), indent=2))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _settings(
    file: Path | None, openclaw_config: Path | None
) -> tuple["Settings", tuple[str, ...]]:
    """The settings, and what to tell about them."""
    from trunkline.settings import demo, load

    if openclaw_config is not None:
        from trunkline.settings.openclaw import load_openclaw

        found = load_openclaw(openclaw_config, config=file)
        return found.settings, found.notes
    return demo() if file is None else load(file), ()
