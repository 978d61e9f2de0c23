"""Settings of the process: the server, its store, and who may call."""

import hashlib
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trunkline.config.secret import Secret


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Address and limits of the gateway."""

    host: Annotated[
        str,
        Meta(
            description="Address to listen on. An address other than loopback needs a key in "
            "`[auth.keys]`."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port to listen on; 0 chooses a free port.")
    ] = 8642
    public_url: Annotated[
        str,
        Meta(
            description="Base URL on the agent cards, for example that of a reverse proxy. It "
            "may have a path. Empty: `http://host:port`."
        ),
    ] = ""
    card_key_path: Annotated[
        str,
        Meta(
            description="File with the private key that signs the agent cards (PEM or JWK: "
            "Ed25519, EC P-256 or RSA). Relative paths start at the folder of this "
            "file. Needs the extra `signatures`. Empty: cards are not signed."
        ),
    ] = ""
    max_body_bytes: Annotated[
        int,
        Meta(
            ge=1024, description="Maximum size of a request body; a larger one is refused with 413."
        ),
    ] = 10 * 1024 * 1024
    body_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds for the body of a request, and one more for every 16 KB that "
            "came; then it is refused with 408.",
        ),
    ] = 30.0
    max_held_bytes: Annotated[
        int,
        Meta(
            ge=1024 * 1024,
            description="What bodies that are being received and answers that are not read may "
            "take in memory, over all callers. Beyond it large requests and answers are refused "
            "with 503, or with 429 to a caller that holds half of it alone.",
        ),
    ] = 256 * 1024 * 1024
    max_header_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Maximum size of the request line and headers; more is refused with 431.",
        ),
    ] = 64 * 1024
    max_json_depth: Annotated[
        int, Meta(ge=8, le=512, description="Maximum nesting depth of JSON in a request.")
    ] = 64
    max_streams_per_principal: Annotated[
        int, Meta(ge=1, description="Maximum number of open streams per caller.")
    ] = 2000
    stream_buffer_events: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of events that wait for one slow stream. A slower "
            "stream is closed, and the client resumes with `Last-Event-ID`.",
        ),
    ] = 1000
    heartbeat_s: Annotated[
        float, Meta(gt=0, description="Seconds between heartbeat comments on an idle stream.")
    ] = 15.0
    drain_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds for running turns to finish when the server stops. A second "
            "Ctrl+C or SIGTERM ends the wait.",
        ),
    ] = 10.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Minimum level of log messages."),
    ] = "info"
    log_format: Annotated[
        Literal["auto", "human", "json"],
        Meta(description="Log format. `auto`: human on a terminal, JSON lines elsewhere."),
    ] = "auto"
    log_requests: Annotated[bool, Meta(description="Log one line for every HTTP request.")] = False


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Store of the tasks and their journal."""

    kind: Annotated[
        Literal["sqlite", "json-file", "memory"],
        Meta(
            description="`sqlite` and `json-file` survive a restart; `memory` is for tests and "
            "loses everything. `json-file` keeps one JSON file per task, for people"
            " and programs that read them."
        ),
    ] = "sqlite"
    path: Annotated[
        str,
        Meta(
            description="Database file, or the absolute path of the `json-file` folder. A "
            "relative database file starts at the folder of this file. Empty: "
            "`trunkline.db` in the user's data folder."
        ),
    ] = ""
    adopt_as: Annotated[
        str,
        Meta(
            description="Principal that owns the tasks of another program in the `json-file` "
            "folder. Empty: callers without a key."
        ),
    ] = ""
    synchronous: Annotated[
        Literal["full", "normal"],
        Meta(
            description="`full`: a power cut loses nothing that was acknowledged. `normal`: a "
            "power cut may lose the last moments; a crash of the process loses "
            "nothing. `json-file` supports only `full`."
        ),
    ] = "full"


class ApiKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One API key: give `key` or `sha256`, not both."""

    key: Annotated[
        Secret | None,
        Meta(description='The key, at least 16 characters. Prefer `"${NAME_OF_VARIABLE}"`.'),
    ] = None
    sha256: Annotated[
        Secret | None,
        Meta(description="SHA-256 of the key in hex. Use it to keep the key out of the file."),
    ] = None

    def digest(self) -> str:
        """SHA-256 of the key, in lower-case hex."""
        if self.sha256 is not None:
            return self.sha256.reveal().lower()
        text = self.key.reveal() if self.key is not None else ""
        return hashlib.sha256(text.encode()).hexdigest()


class AuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access control."""

    keys: Annotated[
        dict[str, ApiKey],
        Meta(description="API keys by name. The name is the principal that owns the tasks."),
    ] = {}
    anonymous: Annotated[
        Literal["auto", "loopback", "never", "always"],
        Meta(
            description="Who needs no key. `auto`: `never` with keys configured, else `loopback`. "
            "`loopback`: programs on this machine, while `host` and every `public_url` are "
            "loopback; a request with `Forwarded`, `Via` or an `X-Forwarded-*` header came through "
            "a proxy and needs a key. `never`: every caller needs a key. `always`: callers need no "
            "key even with a public `public_url`. Anyone who reaches that address may then "
            "call and read the tasks of all callers without a key; `host` must be "
            "loopback."
        ),
    ] = "auto"

    @property
    def needs_no_key(self) -> Literal["loopback", "never", "always"]:
        """`anonymous`, with `auto` resolved."""
        if self.anonymous == "auto":
            return "never" if self.keys else "loopback"
        return self.anonymous

    schemes: Annotated[
        tuple[Literal["bearer", "apiKey"], ...],
        Meta(
            min_length=1,
            description="In which headers a key is taken, and what cards announce: `bearer` is "
            "`Authorization: Bearer KEY`, `apiKey` is `X-API-Key: KEY`.",
        ),
    ] = ("bearer", "apiKey")

    def principals(self) -> dict[str, str]:
        """SHA-256 of each key in hex → the principal it stands for."""
        return {key.digest(): name for name, key in self.keys.items()}
