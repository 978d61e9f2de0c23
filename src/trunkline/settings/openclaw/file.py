"""An `openclaw.json` as a document: JSON5, or the same written as YAML."""

import re
from pathlib import Path
from typing import Any

import pyjson5
import yaml

from trunkline.model.errors import ConfigError
from trunkline.settings.load import read_text

# Space and comments before the first brace of a JSON5 document.
BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
NEAR = re.compile(r"near (\d+)")


def read(file: Path) -> dict[str, Any]:
    """Raises ConfigError with the position of the error, but never quotes the file: it has keys."""
    text = read_text(
        file,
        if_missing="Give the path of your openclaw.json; OpenClaw keeps it at "
        "~/.openclaw/openclaw.json.",
    )
    return parse(text, source=str(file))


def parse(text: str, *, source: str) -> dict[str, Any]:
    blank = BLANK.match(text)
    is_json5 = blank is not None and text.startswith("{", blank.end())
    document = _json5(text, source) if is_json5 else _yaml(text, source)
    if not isinstance(document, dict):
        raise ConfigError(
            f"{source}: not an object. An openclaw.json begins with {{ and has keys such as "
            "channels or a2a."
        )
    return document


def _json5(text: str, source: str) -> Any:
    try:
        return pyjson5.decode(text)
    except pyjson5.Json5DecoderException as error:
        near = NEAR.search(str(error.args[0]))
        place = _place(text, int(near[1]) - 1) if near else ""
        raise ConfigError(f"{source}{place}: not JSON5: {_json5_fault(error)}.") from None


def _json5_fault(error: pyjson5.Json5DecoderException) -> str:
    match error:
        case pyjson5.Json5EOF():
            return "something that begins here is not closed"
        case pyjson5.Json5ExtraData():
            return "something follows the end of the document"
        case pyjson5.Json5NestingTooDeep():
            return "nested too deeply"
        case _:
            return "unexpected character"


def _place(text: str, offset: int) -> str:
    before = text[: max(offset, 0)]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return f", line {line}, column {column}"


def _yaml(text: str, source: str) -> Any:
    try:
        # An alias may refer to a node that contains it, and a configuration needs none.
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise ConfigError(
                    f"{source}{_mark(event.start_mark)}: YAML aliases are not read. "
                    "Write the value out."
                )
        return _with_text_keys(yaml.safe_load(text))
    except yaml.MarkedYAMLError as error:
        raise ConfigError(
            f"{source}{_mark(error.problem_mark)}: neither JSON5, which begins with {{, nor YAML."
        ) from None
    except RecursionError:
        raise ConfigError(f"{source}: nested too deeply.") from None
    except yaml.YAMLError:
        raise ConfigError(
            f"{source}: neither JSON5 nor YAML: it holds characters that neither may have."
        ) from None


def _mark(mark: Any) -> str:
    return "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"


def _with_text_keys(value: Any) -> Any:
    """Keys as texts, like in JSON: an account may be named 1 or yes."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value
