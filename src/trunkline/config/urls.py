"""Checks of URLs and URIs in a configuration."""

import re
from urllib.parse import urlsplit

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
