"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Form(StrEnum):
    text = "text"
    json = "json"


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class LogFormat(StrEnum):
    auto = "auto"
    human = "human"
    json = "json"


Debug = Annotated[
    bool, typer.Option("--debug", envvar="TRUNKLINE_DEBUG", help="Show the traceback of an error.")
]
Output = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
ConfigFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        envvar="TRUNKLINE_CONFIG",
        help="Configuration file (TOML).",
        show_default=False,
    ),
]
OpenClawConfig = Annotated[
    Path | None,
    typer.Option(
        "--openclaw-config",
        metavar="FILE",
        help="An openclaw.json file (JSON5 or YAML).",
        show_default=False,
    ),
]
