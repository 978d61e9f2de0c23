"""Single values, read as the OpenClaw plugins read them: most values of a wrong type count as
absent."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from trunkline.config.problems import Referenced
from trunkline.model.errors import ConfigError

DEFAULT_PORTS = {"http": 80, "https": 443}


def mapping_at(document: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The object below the keys; empty when anything on the way is not an object."""
    found: Any = document
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def text_of(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def texts_of(value: Any) -> tuple[str, ...]:
    texts = (text_of(item) for item in value) if isinstance(value, list) else ()
    return tuple(text for text in texts if text)


def distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def path_of(value: Any) -> str:
    path = text_of(value)
    return path if not path or path.startswith("/") else f"/{path}"


def positive_integer(value: Any) -> int:
    """The value if it is a positive whole number, else 0. 1e6 is one, as in JavaScript."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if value > 0 and value == value // 1 and value < 2**53 else 0


def choice(raw: Mapping[str, Any], key: str, known: tuple[str, ...], prefix: str) -> str:
    """One of the known texts; empty when the key is absent. Raises ConfigError for others."""
    if key not in raw:
        return ""
    value = raw[key]
    if isinstance(value, str) and value in known:
        return str(value)
    received = f"; received {quoted(value)}" if isinstance(value, str) else ""
    raise ConfigError(f"{prefix}.{key} must be one of {', '.join(known)}{received}.")


def quoted(text: str) -> str:
    """The text in quotes. A value from the environment is shown as the reference to it."""
    return json.dumps(text.written if isinstance(text, Referenced) else text, ensure_ascii=False)


def web_url(text: str) -> str:
    """The URL in its usual form, without query, fragment and a slash at its end.

    Empty when the text is no http or https URL.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return ""
    scheme, host = parts.scheme.lower(), parts.hostname
    if scheme not in DEFAULT_PORTS or not host or not text.isprintable() or " " in text:
        return ""
    host = f"[{host}]" if ":" in host else host
    user, at, _ = parts.netloc.rpartition("@")
    place = host if port in (None, DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    return f"{scheme}://{user}{at}{place}{parts.path.rstrip('/')}"


def holds_user(url: str) -> bool:
    return "@" in urlsplit(url).netloc


def flag(raw: Mapping[str, Any], key: str, prefix: str) -> bool:
    """True when it is absent. Raises ConfigError, as the readers below do."""
    value = raw.get(key)
    if value is None or isinstance(value, bool):
        return value is not False
    raise ConfigError(f"{prefix}.{key} must be true or false.")


def text(raw: Mapping[str, Any], key: str, prefix: str) -> str:
    """Empty when it is absent."""
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return text_of(value)
    raise ConfigError(f"{prefix}.{key} must be a string.")


def number(raw: Mapping[str, Any], key: str, prefix: str, *, default: float) -> float:
    value = raw.get(key)
    if value is None:
        return default
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    raise ConfigError(f"{prefix}.{key} must be a number greater than 0.")
