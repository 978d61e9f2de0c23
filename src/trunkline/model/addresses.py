"""Network addresses: which of them are public, and what a log may show of one."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

# Written out, because `is_private` and `is_global` of the standard library change between
# releases of Python. https://www.iana.org/assignments/iana-ipv4-special-registry
_V4: Final = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "an address of carrier-grade NAT"),
        ("127.0.0.0/8", "a loopback address"),
        # Azure's platform services answer here, although the address is a public one.
        ("168.63.129.16/32", "an address of cloud metadata"),
        ("169.254.169.254/32", "a link-local address (cloud metadata)"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a reserved address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "an address for benchmarks"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
_V6: Final = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "an unspecified address"),
        ("::1/128", "a loopback address"),
        ("64:ff9b:1::/48", "a private address"),
        ("100::/64", "a reserved address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("3fff::/20", "an address for documentation"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a private address"),
        ("ff00::/8", "a multicast address"),
    )
)
# RFC 4291, 2.4: the range that is assigned for unicast; other ranges are reserved.
_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_TEREDO: Final = IPv6Network("2001::/32")
# RFC 5214, 6.1: the interface id of ISATAP, before the four bytes of an IPv4 address.
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


def kind_of(address: str) -> str:
    """The reason why the address is not public, such as "a private address"; empty for a public
    address.

    An IPv6 address that stands for an IPv4 address has the kind of that address. A text that is not
    an address is not public either.
    """
    try:
        # A zone (RFC 4007) names the link to send by; the kind of the address does not depend on
        # it.
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return "not an address"
    if isinstance(found, IPv4Address):
        return _kind_of_v4(found)
    for inner in _wrapped(found):
        if kind := _kind_of_v4(inner):
            return f"{kind} ({inner})"
    if found.ipv4_mapped is not None or found in _NAT64 or found in _TEREDO:
        return ""
    for network, kind in _V6:
        if found in network:
            return kind
    return "" if found in _UNICAST else "a reserved address"


def is_this_machine(address: str) -> bool:
    """Whether a connection to the address always ends on this machine."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    # A connection to 0.0.0.0 or :: is one to loopback.
    return found.is_loopback or found.is_unspecified


def _kind_of_v4(address: IPv4Address) -> str:
    for network, kind in _V4:
        if address in network:
            return kind
    return ""


def _wrapped(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that packets to this one may end at."""
    number = int(address)
    last = IPv4Address(number & 0xFFFF_FFFF)
    if address.ipv4_mapped is not None or address in _NAT64:
        return (last,)
    if address in _COMPATIBLE and number > 1:
        return (last,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if (number >> 32) & 0xFFFF_FFFF in _ISATAP:
        return (last,)
    return ()


MASK: Final = "***"

# With a colon before the first slash, everything up to the last @ may belong to the password,
# because a password that is not percent-encoded may hold any character.
_USER: Final = re.compile(r"(?<=://)(?:[^\s/?#]*:\S*|[^\s/?#]*)@|^[^\s/?#]+:(?!//)\S*@")


def without_password(text: str) -> str:
    """The text with `***` for user and password, if it is an address that has them."""
    return _USER.sub(f"{MASK}@", text)
