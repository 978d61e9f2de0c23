"""Whether a text is a URL that a card may carry."""

from urllib.parse import urlsplit


def web_url_fault(url: str) -> str:
    """Why the text is no absolute http(s) URL; empty when it is one."""
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
    """`scheme:something`, as extensions are named: https URLs, urn:, tag:."""
    scheme, colon, rest = uri.partition(":")
    scheme_fits = (
        scheme[:1].isalpha() and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()
    )
    fits = bool(colon and rest) and scheme_fits and uri.isascii()
    return fits and uri.isprintable() and " " not in uri
