"""Options for the configuration file and the store."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="TRUNKLINE_CONFIG",
        help="Configuration file (TOML). None is read by default.",
        show_default=False,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder of the database.", show_default="the user's data folder"
    ),
]
DbOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Database URL: sqlite:///FILE or memory:.")
]


def store_overrides(data: Path | None, db: str | None) -> dict[str, str]:
    """What the flags say of `[store]`."""
    from trunkline.model.errors import ConfigError
    from trunkline.settings.environment import literal
    from trunkline.settings.stores import DATABASE_NAME

    if data is not None and db is not None:
        raise ConfigError(
            "--data and --db both say where the database is. Give one of them: --data DIR for "
            "a folder, --db sqlite:///FILE for a file."
        )
    if data is not None:
        return {
            "kind": "sqlite",
            "path": literal(str(data.expanduser().absolute() / DATABASE_NAME)),
        }
    if db is None:
        return {}
    if db in ("memory:", "memory://"):
        return {"kind": "memory"}
    file = db.removeprefix("sqlite:///")
    if file == db or not file:
        raise ConfigError(
            f"--db {db}: expected sqlite:///FILE or memory:. An absolute file has four slashes: "
            "sqlite:////var/lib/trunkline/trunkline.db."
        )
    return {"kind": "sqlite", "path": literal(str(Path(file).expanduser().absolute()))}
