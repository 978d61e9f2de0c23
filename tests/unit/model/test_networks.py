from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.addresses import is_this_machine, kind_of

# Transcribed from the registries of IANA and the manuals of clouds, not from the module.
SPECIAL = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "carrier-grade NAT",
    "100.100.100.200": "carrier-grade NAT",
    "100.127.255.255": "carrier-grade NAT",
    "127.0.0.1": "loopback",
    "127.0.0.53": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "metadata",
    "169.254.0.1": "link-local",
    "169.254.169.254": "metadata",
    "169.254.170.2": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "reserved",
    "192.0.0.192": "reserved",
    "192.0.2.1": "documentation",
    "192.88.99.1": "reserved",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarks",
    "198.19.255.255": "benchmarks",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "64:ff9b:1::a00:1": "private",
    "100::1": "reserved",
    "2001:2::1": "reserved",
    "2001:20::1": "reserved",
    "2001:db8::1": "documentation",
    "3fff::1": "documentation",
    "4000::1": "reserved",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fe80::1%1": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
}
PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "168.63.129.15",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82b::200e",
)


@pytest.mark.parametrize(("address", "kind"), SPECIAL.items())
def test_every_special_range_is_named(address: str, kind: str) -> None:
    assert kind in kind_of(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_and_the_neighbours_of_special_ones(address: str) -> None:
    assert kind_of(address) == ""


@pytest.mark.parametrize(
    "text", ["", "localhost", "0x7f.1", "2130706433", "127.1", "1.2.3.4.", "x"]
)
def test_text_that_is_no_address_of_a_socket_is_not_public(text: str) -> None:
    assert kind_of(text) == "not an address"
    assert not is_this_machine(text)


def wrapped(address: IPv4Address) -> dict[str, str]:
    """The address in every form of IPv6 that leads to it."""
    number = int(address)
    forms = {
        "mapped": (0xFFFF << 32) | number,
        "compatible": number,
        "nat64": (0x0064_FF9B << 96) | number,
        "6to4": (0x2002 << 112) | (number << 80) | 1,
        # The address of the client is stored inverted (RFC 4380, 4).
        "teredo": (0x2001_0000 << 96) | (0x0808_0808 << 64) | (number ^ 0xFFFF_FFFF),
        "teredo server": (0x2001_0000 << 96) | (number << 64) | (0x0808_0808 ^ 0xFFFF_FFFF),
        "isatap": (0x2606_4700 << 96) | (0x0000_5EFE << 32) | number,
    }
    return {name: str(IPv6Address(form)) for name, form in forms.items()}


@pytest.mark.parametrize("inner", [one for one in SPECIAL if ":" not in one])
def test_a_special_address_within_ipv6_is_as_special(inner: str) -> None:
    for name, form in wrapped(IPv4Address(inner)).items():
        assert kind_of(form), name
        assert kind_of(f"{form}%eth0"), name


@pytest.mark.parametrize("form", ["mapped", "nat64", "6to4", "teredo", "teredo server", "isatap"])
def test_a_public_address_within_ipv6_is_public(form: str) -> None:
    assert kind_of(wrapped(IPv4Address("1.1.1.1"))[form]) == ""


ASSIGNED = [IPv6Network(one) for one in ("2000::/3", "::ffff:0:0/96", "64:ff9b::/96")]


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_what_is_public_is_also_global_for_the_standard_library(address: IPv4Address) -> None:
    assert address.is_global or kind_of(str(address))


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_no_address_of_ipv6_is_public_unless_it_is_assigned(address: IPv6Address) -> None:
    if kind_of(str(address)) == "":
        assert any(address in one for one in ASSIGNED)
        assert not address.is_multicast


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"]
)
def test_this_machine(address: str) -> None:
    assert is_this_machine(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "1.1.1.1", "fe80::1%lo", "::2", "::7f00:1"])
def test_other_machines(address: str) -> None:
    assert not is_this_machine(address)
