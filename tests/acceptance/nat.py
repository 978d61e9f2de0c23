"""`Nat`: a machine behind a router that translates its addresses, in namespaces of the kernel.

This machine is outside. A packet that no machine inside has asked for is dropped by the router
without a word, as most routers at home do it, and so is every packet of a connection that the
router has forgotten.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HAS_NAT = pytest.mark.skipif(
    os.geteuid() != 0 or None in map(shutil.which, ("ip", "nft", "conntrack")),
    reason="needs root and the commands ip, nft, conntrack: "
    "apt-get install iproute2 nftables conntrack",
)
_NAME = "trunkline-nat-"
OUTSIDE, ROUTER = "10.204.0.1", "10.204.0.2"
_GATE, INSIDE = "10.204.1.1", "10.204.1.2"
_ROUTER_RULES = """
table ip nat {
    chain out { type nat hook postrouting priority 100; oifname "outer" masquerade; }
}
table ip filter {
    chain pass {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname "inner" ct state new accept
    }
    chain own { type filter hook input priority 0; policy drop; }
}
"""
# The gateway inside dials the relay at an address of its own machine, which it may do without TLS.
_INSIDE_RULES = f"""
table ip nat {{
    chain dialed {{ type nat hook output priority -100; ip daddr 127.0.0.9 dnat to {OUTSIDE}; }}
    chain from {{ type nat hook postrouting priority 100; oifname "near" masquerade; }}
}}
"""
RELAY_FROM_INSIDE = "127.0.0.9"


class Nat:
    def __init__(self) -> None:
        self._router, self._inside = f"{_NAME}{os.getpid()}-r", f"{_NAME}{os.getpid()}-i"
        self._link = f"tln{os.getpid()}"
        for name in (self._router, self._inside):
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "outer")
        _run("ip", "link", "set", "outer", "netns", self._router)
        _run("ip", "address", "add", f"{OUTSIDE}/30", "dev", self._link)
        _run("ip", "link", "set", self._link, "up")
        self._ip(self._router, "link", "add", "inner", "type", "veth", "peer", "name", "near")
        self._ip(self._router, "link", "set", "near", "netns", self._inside)
        for name, device, address in (
            (self._router, "outer", ROUTER),
            (self._router, "inner", _GATE),
            (self._inside, "near", INSIDE),
        ):
            self._ip(name, "address", "add", f"{address}/30", "dev", device)
            self._ip(name, "link", "set", device, "up")
        self._ip(self._inside, "route", "add", "default", "via", _GATE)
        self._set(self._router, "net.ipv4.ip_forward", "1")
        # A packet in the middle of a connection that is not known begins none.
        self._set(self._router, "net.netfilter.nf_conntrack_tcp_loose", "0")
        self._set(self._inside, "net.ipv4.conf.all.route_localnet", "1")
        self._rules(self._router, _ROUTER_RULES)
        self._rules(self._inside, _INSIDE_RULES)

    @property
    def inside(self) -> tuple[str, ...]:
        """What runs a command inside."""
        return ("ip", "netns", "exec", self._inside)

    @contextmanager
    def route_to_inside(self) -> Iterator[None]:
        """Let this machine know where the addresses inside are, as no stranger does."""
        route = (f"{INSIDE}/32", "via", ROUTER)
        _run("ip", "route", "add", *route)
        try:
            yield
        finally:
            _run("ip", "route", "delete", *route)

    def connections(self) -> int:
        """How many connections the router knows that were opened and not closed."""
        told = _run("ip", "netns", "exec", self._router, "conntrack", "-L", "-p", "tcp")
        return told.count("ESTABLISHED")

    def forget(self) -> None:
        """Let the router forget its connections, as when it has restarted."""
        _run("ip", "netns", "exec", self._router, "conntrack", "-F")

    def close(self) -> None:
        # The kernel removes what is in a namespace some time after the namespace.
        _run("ip", "link", "delete", self._link)
        _run("ip", "netns", "delete", self._inside)
        _run("ip", "netns", "delete", self._router)

    def _ip(self, namespace: str, *words: str) -> None:
        _run("ip", "-n", namespace, *words)

    def _set(self, namespace: str, name: str, value: str) -> None:
        _run("ip", "netns", "exec", namespace, "sysctl", "-q", "-w", f"{name}={value}")

    def _rules(self, namespace: str, rules: str) -> None:
        _run("ip", "netns", "exec", namespace, "nft", "-f", "-", text=rules)


@contextmanager
def nat() -> Iterator[Nat]:
    for path in Path("/run/netns").glob(f"{_NAME}*"):
        # Those of runs that were killed.
        if not Path("/proc", path.name.removeprefix(_NAME).partition("-")[0]).exists():
            _run("ip", "netns", "delete", path.name)
    made = Nat()
    try:
        yield made
    finally:
        made.close()


def _run(*words: str, text: str = "") -> str:
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout
