"""`AgentFlags`: the values of an agent on the command line, and in a file with its table."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec import Struct

from trunkline.cli import options
from trunkline.cli.output import one_line
from trunkline.model.errors import ConfigError

# Keys of a table of the configuration that are members of an agent.
_MEMBERS = ("name", "tagline", "description", "visibility", "isolated", "profile", "backend")

Keys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="Keys of the backend, as in the configuration. A value that is JSON is taken as JSON, "
        "else as a text; @FILE is the text in a file, so that a secret is in no list of processes.",
    ),
]


class AgentFlags(Struct, frozen=True, kw_only=True):
    backend: Annotated[
        str, typer.Option(metavar="KIND", help="Kind of the backend, such as a2a or command.")
    ] = ""
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="TOML or JSON with the keys of an agent's table in the configuration. Options "
            "override it.",
        ),
    ] = None
    name: Annotated[str, typer.Option(help="Display name.", show_default="the slug")] = ""
    tagline: Annotated[str, typer.Option(help="One line, of 160 characters at most.")] = ""
    description: Annotated[str, typer.Option(help="Purpose of the agent, 4 KB at most.")] = ""
    visibility: Annotated[
        Literal["public", "unlisted", "private"] | None,
        typer.Option(
            help="Who learns of it: all, those who know its handle, or callers with a grant.",
            show_default="public",
        ),
    ] = None
    profile: Annotated[
        str, typer.Option(metavar="PRESET", help="Preset of its profile.", show_default="standard")
    ] = ""
    daily_budget: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of queries per day.", show_default="1000"),
    ] = None
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of turns at once.", show_default="5"),
    ] = None
    isolated: Annotated[
        bool | None,
        typer.Option(
            "--isolated/--composable",
            help="Whether it answers alone, or may call other agents during a turn.",
            show_default="isolated",
        ),
    ] = None

    def values(self, keys: list[str] | None) -> dict[str, Any]:
        """The members that are given. Raises ConfigError."""
        made = {} if self.file is None else _values(_read(self.file))
        backend = {"kind": self.backend} if self.backend else dict(made.get("backend", {}))
        backend |= dict(map(_pair, keys or ()))
        if backend:
            if "kind" not in backend:
                raise ConfigError(
                    "--backend: name the kind of the backend, for example --backend echo."
                )
            made["backend"] = backend
        given: dict[str, Any] = {
            "name": self.name,
            "tagline": self.tagline,
            "description": self.description,
            "visibility": self.visibility,
            "profile": self.profile,
            "dailyBudgetQueries": self.daily_budget,
            "concurrencyCap": self.concurrency,
            "isolated": self.isolated,
        }
        return made | {key: value for key, value in given.items() if value not in ("", None)}


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ConfigError(f'"{one_line(text)[:40]}": expected KEY=VALUE, a key of the backend.')
    if value.startswith("@"):
        from trunkline.settings.load import read_text

        return key, read_text(Path(value[1:]), if_missing="It follows the @ of a value.").strip()
    try:
        return key, msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return key, value


def _read(file: Path) -> dict[str, Any]:
    from trunkline.settings.load import read_text, read_toml

    if file.suffix != ".json":
        return dict(read_toml(file))
    text = read_text(file, if_missing="Give the path of a TOML or JSON file.")
    found = options.from_json(text, what=str(file))
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: expected an object with the keys of an agent.")
    return found


def _values(table: dict[str, Any]) -> dict[str, Any]:
    """The members for a table of the configuration."""
    values = {key: value for key, value in table.items() if key in _MEMBERS}
    if "skills" in table:
        values["skills"] = [_in_camel_case(skill) for skill in table["skills"]]
    if "limits" in table:
        values["limits"] = _in_camel_case(table["limits"])
    rest = {k: v for k, v in table.items() if k not in (*_MEMBERS, "skills", "limits")}
    return {**values, "settings": rest} if rest else values


def _in_camel_case(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {_camel(key): value for key, value in table.items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
