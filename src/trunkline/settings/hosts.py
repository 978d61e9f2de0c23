"""Which addresses only this machine can reach."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback_host(host: str) -> bool:
    """Names other than localhost are not trusted: what they resolve to may change."""
    bare = host.strip("[]").rstrip(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def is_loopback_url(url: str) -> bool:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return False
    return host is not None and is_loopback_host(host)
