"""`Token`: a credential that the hub issued, as its record holds it, and what it allows.

A token is random text, `tl_key_` and 40 hexadecimal digits for example. The hub stores only its
SHA-256 digest. The id of a token is made of the beginning of the digest, so that one look-up by the
secret or by the id finds the record. Tokens are random and long enough that a digest leads to none.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from trunkline.model.calls import Operation
from trunkline.model.principal import OPERATOR, Grant, Principal

# `session`: a person who signed in. `key`: a program, or a person's own key. `access`: for a short
# time, in exchange for a key.
Kind: TypeAlias = Literal["session", "key", "access"]
Scope: TypeAlias = Literal["read", "call", "admin"]
Style: TypeAlias = Literal["trunkline", "clawborrator"]

SCOPES: Final[tuple[Scope, ...]] = ("read", "call", "admin")
READS: Final = frozenset(
    map(
        str,
        (
            Operation.GET_TASK,
            Operation.LIST_TASKS,
            Operation.SUBSCRIBE_TO_TASK,
            Operation.GET_EXTENDED_AGENT_CARD,
        ),
    )
)
OPERATIONS: Final = frozenset(map(str, Operation))

_STYLES: Final[dict[Style, str]] = {"trunkline": "tl", "clawborrator": "cw"}
_KINDS: Final[dict[Kind, str]] = {"session": "sess", "key": "key", "access": "acc"}
# 32 digits are the form that clients of the seed know; 128 bits cannot be guessed.
_DIGITS: Final[dict[Kind, int]] = {"session": 32, "key": 40, "access": 40}
_FORM: Final = re.compile(rb"(?:tl|cw)_(?:sess_[0-9a-f]{32}|(?:key|acc)_[0-9a-f]{40})")
# How much of the random part lists show, so that a person recognises a token.
_SHOWN_DIGITS: Final = 6
_ID_DIGITS: Final = 24
ID: Final = re.compile(r"tok_[0-9a-f]{24}")


class Token(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a record `token.1`."""

    id: str
    kind: Kind
    name: str
    principal: str
    # The beginning of the token.
    prefix: str
    # SHA-256 of the token in hex.
    digest: str
    created_ms: int
    created_by: str = ""
    tenant: str = ""
    # What the principal may call by this token.
    grants: tuple[Grant, ...] = ()
    reaches_open: bool = False
    roles: tuple[str, ...] = ()
    # What the token is limited to: by scope, and, unless None, by agents and operations.
    scopes: tuple[Scope, ...] = ("call",)
    agents: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    expires_ms: int | None = None
    revoked_ms: int | None = None
    # The id of the token that took its place.
    replaced_by: str = ""
    # The id of the key that it was given for; it ends with that key.
    parent: str = ""

    def __repr__(self) -> str:
        return f"Token(id={self.id!r}, name={self.name!r})"

    def is_active(self, now_ms: int) -> bool:
        return self.revoked_ms is None and (self.expires_ms is None or now_ms < self.expires_ms)


def new_text(kind: Kind, style: Style, random_hex: str) -> str:
    """A new token; `random_hex` has at least 40 digits."""
    return f"{_STYLES[style]}_{_KINDS[kind]}_{random_hex[: _DIGITS[kind]]}"


def prefix_of(text: str) -> str:
    return text[: text.rindex("_") + 1 + _SHOWN_DIGITS]


def cookie_name(style: Style) -> str:
    return f"{_STYLES[style]}_session"


def looks_like_token(credential: bytes) -> bool:
    return len(credential) <= 64 and _FORM.fullmatch(credential) is not None


def digest_of(credential: bytes) -> str:
    return hashlib.sha256(credential).hexdigest()


def id_of(digest: str) -> str:
    return f"tok_{digest[:_ID_DIGITS]}"


def has_digest(token: Token, digest: str) -> bool:
    return hmac.compare_digest(token.digest, digest)


def principal_of(token: Token, granted: Iterable[Grant] = ()) -> Principal:
    """The principal of a token; `granted` is what others granted to the principal beside it."""
    own = [Grant("*") if role == OPERATOR else _agents_of_owner(role) for role in token.roles]
    return Principal(
        id=token.principal,
        tenant=token.tenant,
        grants=(*token.grants, *(grant for grant in own if grant is not None), *granted),
        token=token.id,
        reaches_open=token.reaches_open,
        roles=token.roles if "admin" in token.scopes else (),
        within=within(token.scopes, agents=token.agents, methods=token.methods),
    )


def _agents_of_owner(role: str) -> Grant | None:
    kind, _, owner = role.partition(":")
    return Grant(f"{owner}/*") if kind == "owner" and owner else None


def within(
    scopes: Iterable[Scope],
    *,
    agents: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
) -> tuple[Grant, ...] | None:
    """What a credential of these scopes, agents and methods is limited to; None for no limit."""
    operations = operations_of(scopes, methods)
    if not operations:
        return ()
    every = None if operations == OPERATIONS else operations
    if agents is None:
        return None if every is None else (Grant("*", every),)
    return tuple(Grant(agent, every) for agent in agents)


def operations_of(scopes: Iterable[Scope], methods: Iterable[str] | None) -> frozenset[str]:
    """The operations of A2A that the scopes allow, and that are among the methods if there are
    any."""
    named = frozenset(scopes)
    allowed = OPERATIONS if "call" in named else READS if "read" in named else frozenset()
    return allowed if methods is None else allowed.intersection(methods)
