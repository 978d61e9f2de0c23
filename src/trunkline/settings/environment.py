"""Environment variables in the texts of a document: `${NAME}` and `${NAME:-default}`."""

import datetime
import re
from collections.abc import Mapping
from typing import Any

from trunkline.config.problems import Path, Problem, Referenced, dotted
from trunkline.config.secret import Secret

# `$${` is a literal `${`. The last branch matches a `${` that begins no reference.
REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")
_SECRETS = re.compile(r"(token|key|secret|password)s?$", re.IGNORECASE)


def expand(document: Any, *, environment: Mapping[str, str], problems: list[Problem]) -> Any:
    """The document with its references filled in. A reference without a value is a problem."""

    def expanded(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: expanded(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [expanded(item, (*path, i)) for i, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return _expand_text(value, environment, problems, path)
        # TOML has dates; a card is JSON, which has none.
        is_time = isinstance(value, datetime.date | datetime.time)
        return value.isoformat() if is_time else value

    return expanded(document, ())


def secret_of(text: str) -> Secret:
    """The text as a secret, with the name of the variable if the text was one reference."""
    written = text.written if isinstance(text, Referenced) else ""
    match = REFERENCE.fullmatch(written)
    return Secret(str(text), variable=match[1] or "" if match else "")


def literal(value: Any) -> Any:
    """The value, escaped so that `expand` returns it unchanged."""
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [literal(item) for item in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def _expand_text(
    text: str, environment: Mapping[str, str], problems: list[Problem], path: Path
) -> str:
    refers = False

    def fill(match: re.Match[str]) -> str:
        nonlocal refers
        if match[0] == "$${":
            return "${"
        refers = True
        name, default = match[1], match[2]
        if name is None:
            remedy = "Write ${NAME} or ${NAME:-default}, or $${ for the characters."
            problems.append(Problem(path, "has a ${ that is not a reference", remedy))
            return ""
        found = environment.get(name)
        # As in a shell, an empty variable takes the default too.
        if default is not None:
            return found or default
        if found is None:
            default = f'{dotted(path[-1:])} = "${{{name}:-default}}"'
            what = f"the environment variable {name} is not set"
            # A secret in a file is what the reference avoids.
            remedy = "Set it." if _is_secret(path) else f"Set it, or give a default: {default}."
            problems.append(Problem(path, what, remedy))
        return found or ""

    filled = REFERENCE.sub(fill, text)
    return Referenced(filled, text) if refers else filled


def _is_secret(path: Path) -> bool:
    """Whether the value of a setting is a secret, by its name."""
    names = [part for part in path if isinstance(part, str)]
    return bool(names) and _SECRETS.search(names[-1]) is not None
