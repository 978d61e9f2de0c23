"""`AuthSettings`: the API keys, and the callers who need none."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, did_you_mean
from trunkline.config.secret import Secret
from trunkline.engine.access import is_unrestricted
from trunkline.model.calls import Operation
from trunkline.model.handles import HANDLE
from trunkline.model.principal import ATTACH, EVERYTHING, OPERATOR, Grant, Principal

# Shorter keys can be guessed; 16 random characters hold 96 bits in base64.
MIN_KEY_CHARS = 16
PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
ALL = "*"
OPERATIONS = (ALL, *map(str, Operation))
SHA256 = re.compile(r"[0-9a-fA-F]{64}")


class ApiKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One API key: give `key` or `sha256`, not both."""

    key: Annotated[
        Secret | None, doc('The key, at least 16 characters. Prefer `"${NAME_OF_VARIABLE}"`.')
    ] = None
    sha256: Annotated[
        Secret | None, doc("SHA-256 of the key in hex. Use it to keep the key out of the file.")
    ] = None
    grants: Annotated[
        dict[str, tuple[str, ...]] | None,
        doc(
            "What the key may call: handles of agents (`owner/slug`, `owner/*` for all of an "
            "owner, `*` for all), each with its operations by their names in A2A 1.0, such as "
            '`["SendMessage", "GetTask"]`, or `["*"]` for all. Everything else is denied, '
            "`/metrics` and `/mcp` included. "
            "Absent: everything is allowed, or nothing for a key with `attach`."
        ),
    ] = None
    attach: Annotated[
        tuple[str, ...],
        doc(
            "What a gateway with this key may attach to the relay that this one is: "
            '`"tenant/agent"`, or `"tenant/*"` for all agents of a tenant.'
        ),
    ] = ()

    def digest(self) -> str:
        """SHA-256 of the key, in lower-case hex."""
        if self.sha256 is not None:
            return self.sha256.reveal().lower()
        text = self.key.reveal() if self.key is not None else ""
        return hashlib.sha256(text.encode()).hexdigest()

    def granted(self) -> tuple[Grant, ...]:
        if self.grants is None:
            return () if self.attach else EVERYTHING
        return tuple(
            Grant(agent, None if ALL in operations else frozenset(operations))
            for agent, operations in self.grants.items()
        )


class AuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Access control."""

    keys: Annotated[
        dict[str, ApiKey], doc("API keys by name. The name is the principal that owns the tasks.")
    ] = {}
    anonymous: Annotated[
        Literal["auto", "loopback", "never", "always"],
        doc(
            "Who needs no key. `auto`: `never` with keys configured, else `loopback`. "
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
        doc(
            "In which headers a key is taken, and what cards announce: `bearer` is "
            "`Authorization: Bearer KEY`, `apiKey` is `X-API-Key: KEY`.",
            min_length=1,
        ),
    ] = ("bearer", "apiKey")

    def principals(self) -> dict[str, Principal]:
        """SHA-256 of each key in hex → the principal it stands for."""
        return {key.digest(): _principal(name, key) for name, key in self.keys.items()}


def _principal(name: str, key: ApiKey) -> Principal:
    attach = tuple(f"{ATTACH}{agent}" for agent in key.attach)
    principal = Principal(id=name, grants=key.granted(), token=name, roles=attach)
    # A key that may call everything may also manage everything.
    is_operator = is_unrestricted(principal)
    return replace(principal, roles=(OPERATOR, *attach)) if is_operator else principal


def key_problems(keys: Mapping[str, ApiKey]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, key in keys.items():
        yield from _key(name, key)
        twin = seen.setdefault(key.digest(), name)
        if twin != name and (key.key or key.sha256):
            yield Problem(
                ("auth", "keys", name),
                f'has the same key as "{twin}"',
                "Give each name a key of its own: the key decides who the caller is.",
            )


def _key(name: str, key: ApiKey) -> Iterator[Problem]:
    path = ("auth", "keys", name)
    if not PRINCIPAL.fullmatch(name) or name == "anonymous":
        yield Problem(
            path,
            "cannot be the name of a principal",
            "Use up to 64 letters, digits and . _ @ -, starting with a letter or digit, "
            'and not "anonymous".',
        )
    if (key.key is None) == (key.sha256 is None):
        yield Problem(
            path, "needs key or sha256, and not both", 'Example: key = "${TRUNKLINE_KEY}".'
        )
    if key.key is not None and len(key.key.reveal()) < MIN_KEY_CHARS:
        yield bad_value(
            (*path, "key"),
            f"shorter than {MIN_KEY_CHARS} characters",
            "Make one with: openssl rand -hex 24",
        )
    elif key.key is not None and not _fits_a_header(key.key.reveal()):
        yield bad_value(
            (*path, "key"),
            "holds characters that cannot be sent in a header",
            "Use visible ASCII characters. Make one with: openssl rand -hex 24",
        )
    for index, agent in enumerate(key.attach):
        if not HANDLE.fullmatch(agent):
            yield bad_value(
                (*path, "attach", index),
                "names no agent of a relay",
                'Name one as "tenant/agent", or "tenant/*" for all agents of a tenant.',
            )
    for agent, operations in (key.grants or {}).items():
        yield from _grant((*path, "grants", agent), agent, operations)
    if key.sha256 is not None and not SHA256.fullmatch(key.sha256.reveal()):
        yield bad_value(
            (*path, "sha256"),
            "expected 64 hexadecimal digits",
            'Make it with: printf %s "$TRUNKLINE_KEY" | sha256sum',
        )


def _grant(path: Path, agent: str, operations: tuple[str, ...]) -> Iterator[Problem]:
    if agent != ALL and not HANDLE.fullmatch(agent):
        yield Problem(
            path,
            "names no agent",
            'Name a handle, such as "acme/rust-expert", or "acme/*" for all agents of acme, or '
            '"*" for all.',
        )
    yield from operation_problems(path, operations)


def operation_problems(path: Path, operations: tuple[str, ...]) -> Iterator[Problem]:
    if not operations:
        yield Problem(path, "names no operation", 'Name some, or "*" for all of them.')
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield bad_value(
                (*path, index),
                "is no operation of A2A",
                f"{did_you_mean(operation, OPERATIONS)}Name one of: {', '.join(OPERATIONS)}.",
            )


def _fits_a_header(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key
