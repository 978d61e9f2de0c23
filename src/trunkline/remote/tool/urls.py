"""Base URLs of agents: which ones are usable, and when two are the same."""

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

# RFC 3986, absolute, in the looseness of the validators that agents' hosts use.
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+"
)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def is_uri(text: str) -> bool:
    return _URI.fullmatch(text) is not None


def normalized(url: str) -> str | None:
    """The URL in the one spelling of its kind; None when no agent can be there.

    A user or password in a URL would reach summaries and logs, so it is not taken.
    """
    if not is_uri(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname
    if parts.scheme not in _DEFAULT_PORTS or not host or "@" in parts.netloc:
        return None
    where = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
        where = f"{where}:{port}"
    return urlunsplit((parts.scheme, where, parts.path.rstrip("/") or "/", parts.query, ""))
