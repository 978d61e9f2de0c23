"""`gateway.bind` of an `openclaw.json`, as the address to listen on."""

import ipaddress
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from trunkline.model.errors import ConfigError
from trunkline.settings.openclaw.values import choice, mapping_at, text, text_of

MODES: Final = ("auto", "loopback", "lan", "tailnet", "custom")
LOOPBACK: Final = "127.0.0.1"
# The range of Tailscale's addresses, and its DNS server in that range.
_TAILNET: Final = ipaddress.ip_network("100.64.0.0/10")
_TAILNET_DNS: Final = ("100.100.100.100", 53)


def relevant_part(gateway: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `gateway` that is read. It has many other keys, such as its token."""
    keys = ("bind", "customBindHost")
    mode = mapping_at(gateway, "tailscale").get("mode")
    return {
        **{key: gateway[key] for key in keys if key in gateway},
        **({"tailscale": {"mode": mode}} if isinstance(mode, str) else {}),
    }


def host_of(gateway: Mapping[str, Any], *, find: Callable[[], str] | None = None) -> str:
    """The host to listen on; empty when the file names none. Raises ConfigError."""
    mode = choice(gateway, "bind", MODES, "gateway")
    match mode:
        case "auto" | "loopback":
            return LOOPBACK
        case "lan":
            return "0.0.0.0"
        case "custom":
            host = text(gateway, "customBindHost", "gateway").strip()
            if not host:
                raise ConfigError(
                    'gateway.customBindHost is required with gateway.bind "custom"; give the '
                    "address to listen on."
                )
            return host
        case "tailnet":
            # Serve and Funnel end TLS on this machine and call us on loopback.
            if text_of(mapping_at(gateway, "tailscale").get("mode")) in ("serve", "funnel"):
                return LOOPBACK
            return _tailnet_host((find or _own_tailnet_address)())
        case _:
            return ""


def _tailnet_host(found: str) -> str:
    try:
        is_tailnet = ipaddress.ip_address(found) in _TAILNET
    except ValueError:
        is_tailnet = False
    if not is_tailnet:
        raise ConfigError(
            'gateway.bind is "tailnet", and there is no Tailscale address on this machine. Start '
            'Tailscale, or set gateway.bind to "custom" and gateway.customBindHost to the address.'
        )
    return found


def _own_tailnet_address() -> str:
    """The address from which this machine would reach the tailnet; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_TAILNET_DNS)
        except OSError:
            return ""
        return str(probe.getsockname()[0])
