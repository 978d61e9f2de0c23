"""`ServerSettings`: the address and limits of the gateway, and which addresses are loopback."""

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Problem, bad_value


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Address and limits of the gateway."""

    host: Annotated[
        str,
        doc("Address to listen on. An address other than loopback needs a key in `[auth.keys]`."),
    ] = "127.0.0.1"
    port: Annotated[int, doc("Port to listen on; 0 chooses a free port.", ge=0, le=65535)] = 8642
    public_url: Annotated[
        str,
        doc(
            "Base URL on the agent cards, for example that of a reverse proxy. It "
            "may have a path. Empty: `http://host:port`."
        ),
    ] = ""
    card_key_path: Annotated[
        str,
        doc(
            "File with the private key that signs the agent cards (PEM or JWK: "
            "Ed25519, EC P-256 or RSA). Relative paths start at the folder of this "
            "file. Needs the extra `signatures`. Empty: cards are not signed."
        ),
    ] = ""
    max_body_bytes: Annotated[
        int, doc("Maximum size of a request body; a larger one is refused with 413.", ge=1024)
    ] = 10 * 1024 * 1024
    body_timeout_s: Annotated[
        float,
        doc(
            "Seconds for the body of a request, and one more for every 16 KB that "
            "came; then it is refused with 408.",
            gt=0,
        ),
    ] = 30.0
    max_held_bytes: Annotated[
        int,
        doc(
            "What bodies that are being received and answers that are not read may "
            "take in memory, over all callers. Beyond it large requests and answers are refused "
            "with 503, or with 429 to a caller that holds half of it alone.",
            ge=1024 * 1024,
        ),
    ] = 256 * 1024 * 1024
    max_header_bytes: Annotated[
        int, doc("Maximum size of the request line and headers; more is refused with 431.", ge=1024)
    ] = 64 * 1024
    max_json_depth: Annotated[
        int, doc("Maximum nesting depth of JSON in a request.", ge=8, le=512)
    ] = 64
    max_streams_per_principal: Annotated[
        int, doc("Maximum number of open streams per caller.", ge=1)
    ] = 2000
    stream_buffer_events: Annotated[
        int,
        doc(
            "Maximum number of events that wait for one slow stream. A slower "
            "stream is closed, and the client resumes with `Last-Event-ID`.",
            ge=1,
        ),
    ] = 1000
    heartbeat_s: Annotated[
        float, doc("Seconds between heartbeat comments on an idle stream.", gt=0)
    ] = 15.0
    drain_s: Annotated[
        float,
        doc(
            "Seconds for running turns to finish when the server stops. A second "
            "Ctrl+C or SIGTERM ends the wait.",
            ge=0,
        ),
    ] = 10.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], doc("Minimum level of log messages.")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "human", "json"],
        doc("Log format. `auto`: human on a terminal, JSON lines elsewhere."),
    ] = "auto"
    relay: Annotated[
        bool,
        doc(
            "Whether this gateway is a relay: other gateways attach their agents at `/agent`, and "
            "callers reach them below `/t/TENANT/a2a/AGENT`. The keys `attach` of `[auth.keys]` "
            "say who may attach what. `true` is short for an empty table `[relay_server]`."
        ),
    ] = False
    log_requests: Annotated[bool, doc("Log one line for every HTTP request.")] = False


def is_loopback_host(host: str) -> bool:
    """Names other than localhost are not trusted, because they may resolve differently later."""
    bare = host.strip("[]").rstrip(".").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def is_wildcard_host(host: str) -> bool:
    """Whether a socket that listens there is at every address of the machine."""
    bare = host.strip("[]")
    try:
        return not bare or ipaddress.ip_address(bare).is_unspecified
    except ValueError:
        return False


def is_loopback_url(url: str) -> bool:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return False
    return host is not None and is_loopback_host(host)


def server_problems(server: ServerSettings) -> Iterator[Problem]:
    if not server.host or any(character.isspace() for character in server.host):
        yield bad_value(
            ("server", "host"),
            "expected an address or a host name",
            'For this machine only: host = "127.0.0.1".',
        )
