"""`trunkline config check | show | schema`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from trunkline.cli.options import ConfigFlags, OpenClawConfig, Output
from trunkline.cli.output import counted, json_document
from trunkline.cli.usage import command, group
from trunkline.model.errors import ConfigError

app = group("Check and show configuration files.")


ConfigFile = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", envvar="TRUNKLINE_CONFIG", help="Configuration file (TOML)."),
]


@command(app, "check")
def check(
    file: ConfigFile = None, openclaw_config: OpenClawConfig = None, output: Output = "text"
) -> None:
    """Check a configuration file and print every problem in it."""
    from trunkline.settings.stores import place_of

    if file is None and openclaw_config is None:
        raise ConfigError("there is no file to check. Give FILE, or set TRUNKLINE_CONFIG.")
    settings, notes = ConfigFlags(config=file, openclaw_config=openclaw_config).load()
    stores = [place_of(store) for store in settings.stores()]
    if output == "json":
        held = {"agents": [*settings.agents], "stores": stores, "targets": [*settings.targets]}
        print(json_document({"ok": True, **held, "notes": notes}))
        return
    found = []
    if settings.agents:
        kept = " and ".join(stores) or "nothing kept"
        found.append(f"{counted(len(settings.agents), 'agent')}, {kept}")
    if settings.targets or not settings.agents:
        found.append(counted(len(settings.targets), "target"))
    print(f"ok: {'; '.join(found)}")
    for note in notes:
        print(f"note: {note}")


@command(app, "show")
def show(
    file: ConfigFile = None,
    openclaw_config: OpenClawConfig = None,
    output: Annotated[
        Literal["toml", "json"], typer.Option("--output", "-o", help="Output format.")
    ] = "toml",
) -> None:
    """Print every key with its effective value; secrets are masked.

    Without a file, prints the configuration of `trunkline serve` without arguments. With
    --openclaw-config, prints that file as a trunkline.toml.
    """
    from trunkline.settings import effective
    from trunkline.settings.show import to_toml

    settings, _ = ConfigFlags(config=file, openclaw_config=openclaw_config).load()
    document = effective(settings)
    if output == "json":
        print(json_document(document))
    else:
        print(to_toml(document), end="")


@command(app, "schema", has_debug=False)
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    import json

    from trunkline.settings import schema as made

    print(json.dumps(made(), indent=2))
