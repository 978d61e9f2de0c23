"""Settings of the process: the server, its store, and who may call."""

import hashlib
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trunkline.settings.secret import Secret


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the gateway listens, and its limits."""

    host: Annotated[
        str,
        Meta(
            description="Address to listen on. Anything but loopback needs a key in `[auth.keys]`."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes any free port.")
    ] = 8642
    public_url: Annotated[
        str,
        Meta(
            description="Base URL that agent cards advertise, for example behind a reverse proxy. "
            "A path in it is kept. Empty: `http://host:port`."
        ),
    ] = ""
    card_key_path: Annotated[
        str,
        Meta(
            description="File with the private key (PEM or JWK: Ed25519, EC P-256 or RSA) that "
            "agent cards are signed with. Relative paths start at the folder of this file. Needs "
            "the extra `signatures`. Empty: they are not signed."
        ),
    ] = ""
    max_body_bytes: Annotated[
        int, Meta(ge=1024, description="Largest request body; more is refused with 413.")
    ] = 10 * 1024 * 1024
    max_header_bytes: Annotated[
        int,
        Meta(ge=1024, description="Request line and headers together; more is refused with 431."),
    ] = 64 * 1024
    max_json_depth: Annotated[
        int, Meta(ge=8, le=512, description="Deepest nesting of JSON in a request.")
    ] = 64
    max_streams_per_principal: Annotated[
        int, Meta(ge=1, description="Streams that one caller may hold open at once.")
    ] = 2000
    stream_buffer_events: Annotated[
        int,
        Meta(
            ge=1,
            description="Events that may wait for one slow stream before it is cut off. "
            "The client resumes with `Last-Event-ID`.",
        ),
    ] = 1000
    heartbeat_s: Annotated[
        float, Meta(gt=0, description="Seconds between comments on a quiet stream.")
    ] = 15.0
    drain_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds that running turns get to finish when the server stops. A second "
            "Ctrl+C or SIGTERM ends the wait.",
        ),
    ] = 10.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Least severe record that is logged."),
    ] = "info"
    log_format: Annotated[
        Literal["auto", "human", "json"],
        Meta(
            description="Form of the log: `auto` is human on a terminal and JSON lines elsewhere."
        ),
    ] = "auto"
    log_requests: Annotated[bool, Meta(description="Log one line for every HTTP request.")] = False


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where tasks and their journal are kept."""

    kind: Annotated[
        Literal["sqlite", "json-file", "memory"],
        Meta(
            description="`sqlite` and `json-file` survive a restart; `memory` is for tests and "
            "forgets all. `json-file` keeps one JSON file per task, for people and programs "
            "that read them."
        ),
    ] = "sqlite"
    path: Annotated[
        str,
        Meta(
            description="Database file, or the folder of `json-file`, which must be absolute. "
            "Other relative paths start at the folder of this file. "
            "Empty: `trunkline.db` in the user's data folder."
        ),
    ] = ""
    adopt_as: Annotated[
        str,
        Meta(
            description="Principal that owns the tasks that another program has left in the "
            "folder of `json-file`. Empty: callers without a key."
        ),
    ] = ""
    synchronous: Annotated[
        Literal["full", "normal"],
        Meta(
            description="`full`: a power cut loses nothing that was acknowledged. "
            "`normal`: it may lose the last moments; a crash of the process loses nothing. "
            "`json-file` knows `full` only."
        ),
    ] = "full"


class ApiKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One API key: give `key` or `sha256`, not both."""

    key: Annotated[
        Secret | None,
        Meta(description='The key, at least 16 characters; best as `"${NAME_OF_VARIABLE}"`.'),
    ] = None
    sha256: Annotated[
        Secret | None,
        Meta(description="SHA-256 of the key in hex, so that the file does not hold the key."),
    ] = None

    def digest(self) -> str:
        """SHA-256 of the key, in lower-case hex."""
        if self.sha256 is not None:
            return self.sha256.reveal().lower()
        text = self.key.reveal() if self.key is not None else ""
        return hashlib.sha256(text.encode()).hexdigest()


class AuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may call."""

    keys: Annotated[
        dict[str, ApiKey],
        Meta(description="API keys by name. The name is the principal that owns the tasks."),
    ] = {}
    anonymous: Annotated[
        Literal["loopback", "never", "always"],
        Meta(
            description="`loopback`: callers need no key as long as only this machine can reach "
            "the gateway, so neither `host` nor a `public_url` points beyond it. "
            "`never`: everybody needs a key. `always`: callers need no key although a "
            "`public_url` points beyond this machine, so whoever reaches it may call and read "
            "what other callers without a key did; `host` must be loopback."
        ),
    ] = "loopback"

    def principals(self) -> dict[str, str]:
        """SHA-256 of each key in hex → the principal it stands for."""
        return {key.digest(): name for name, key in self.keys.items()}
