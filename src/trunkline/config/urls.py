"""Checks of URLs and URIs in a configuration."""

import re
from urllib.parse import parse_qs, unquote, urlsplit

from trunkline.model.addresses import without_password

# The characters of RFC 3986 §2, with a `%` only before two hexadecimal digits.
URL_TEXT = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")


def web_url_fault(url: str) -> str:
    """The reason why the text is not an absolute http(s) URL, or an empty text."""
    if not url.isprintable() or any(character.isspace() for character in url):
        return "expected a URL without spaces"
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        return "expected a valid URL"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_fits:
        return "expected an absolute http or https URL"
    if parts.username is not None or parts.password is not None:
        return "expected a URL without user and password"
    return ""


def is_absolute_uri(uri: str) -> bool:
    """Whether the text is `scheme:something`, the form of extension names: https URLs, urn:,
    tag:."""
    scheme, colon, rest = uri.partition(":")
    scheme_fits = (
        scheme[:1].isalpha() and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()
    )
    fits = bool(colon and rest) and scheme_fits and uri.isascii()
    return fits and uri.isprintable() and " " not in uri


def url_fault(url: str) -> str:
    fault = web_url_fault(url)
    if not fault and not URL_TEXT.fullmatch(url):
        fault = "expected a URL in ASCII, with anything else percent-encoded"
    return fault


POSTGRES_EXAMPLE = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
_POSTGRES = re.compile(r"postgres(?:ql)?://")
# Behind the user: hosts with ports, separated by commas, then the database and the options.
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]/?#:@,]*)(?::[0-9]{0,5})?"
_POSTGRES_PLACE = re.compile(
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?:/(?P<name>[^/?#]*))?(?:\?(?P<options>[^#]*))?"
)


def postgres_url_fault(url: str) -> str:
    """The reason why the text is not the URL of a PostgreSQL database, or an empty text. Neither
    shows the URL, which may have a password."""
    if not _POSTGRES.match(url):
        return f"expected {POSTGRES_EXAMPLE}"
    if not url.isprintable() or any(character.isspace() for character in url):
        return "expected a URL without spaces"
    if re.search(r"%(?![0-9A-Fa-f]{2})", url):
        return "has a % that is not followed by two hexadecimal digits; write %25 for a % itself"
    match = _POSTGRES_PLACE.fullmatch(_without_user(url))
    if match is None:
        return (
            f"expected {POSTGRES_EXAMPLE}, with / ? # @ : and % in user and password "
            "percent-encoded (%2F %3F %23 %40 %3A %25)"
        )
    if not match["name"] and not parse_qs(match["options"] or "").get("dbname"):
        return "does not name the database: " + POSTGRES_EXAMPLE
    return ""


def postgres_place(url: str) -> str:
    """The database in messages and logs: its hosts and its name, without user and password."""
    match = _POSTGRES_PLACE.fullmatch(_without_user(url))
    if match is None:
        return "postgresql://***"
    options = parse_qs(match["options"] or "")
    hosts = match["hosts"] or ",".join(options.get("host", ()))
    if "port" in options and not match["hosts"]:
        hosts += f":{','.join(options['port'])}"
    name = match["name"] or "".join(options.get("dbname", ())[:1])
    return f"postgresql://{unquote(hosts) or 'local'}/{unquote(name or '')}"


def _without_user(url: str) -> str:
    return without_password(url).partition("://")[2].removeprefix("***@")
