"""`trunkline config check | show | schema`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.failures import reported
from trunkline.cli.options import ConfigFile, Debug

if TYPE_CHECKING:
    from trunkline.settings import Settings

app = typer.Typer(help="Check and show configuration files.", no_args_is_help=True)


class Notation(StrEnum):
    toml = "toml"
    json = "json"


@app.command()
def check(context: typer.Context, file: ConfigFile = None, debug: Debug = False) -> None:
    """Check a file, and print everything that is wrong with it."""
    from trunkline.model.errors import ConfigError
    from trunkline.settings import database_path, load

    with reported(context):
        if file is None:
            raise ConfigError("there is no file to check. Give FILE, or set TRUNKLINE_CONFIG.")
        settings = load(file)
    store = settings.store
    kept = "in memory" if store.kind == "memory" else f"{store.kind} at {database_path(store)}"
    count = len(settings.agents)
    print(f"ok: {count} agent{'' if count == 1 else 's'}, {kept}")


@app.command()
def show(
    context: typer.Context,
    file: ConfigFile = None,
    output: Annotated[
        Notation, typer.Option("--output", "-o", help="How to print the result.")
    ] = Notation.toml,
    debug: Debug = False,
) -> None:
    """Print every key with the value in force; secrets are masked.

    Without a file, it is what `trunkline serve` runs without one.
    """
    from trunkline.settings import effective
    from trunkline.settings.show import to_toml

    with reported(context):
        document = effective(_settings(file))
    if output is Notation.json:
        import json

        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(to_toml(document), end="")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the file, for editors."""
    import json

    from trunkline.settings import schema as made

    print(json.dumps(made(), indent=2))


def _settings(file: Path | None) -> "Settings":
    from trunkline.settings import demo, load

    return demo() if file is None else load(file)
