"""The signed form of an agent card (A2A 1.0, 8.4), and the protected header of a signature."""

import base64
import binascii
from typing import Any, Final, TypeAlias

import msgspec

from trunkline.model.card import AgentCard, AgentCardSignature
from trunkline.model.errors import TrunklineError
from trunkline.protocol import jcs, protojson
from trunkline.protocol.card_reading import CARD_DEFAULTS

Tree: TypeAlias = dict[str, Any]

_NAMES: Final = {
    name
    for field in msgspec.structs.fields(AgentCard)
    for name in (field.name, field.encode_name)
    if field.name != "signatures"
}
_SCHEMES: Final = ("securitySchemes", "security_schemes")
# A2A 1.0, 8.4.1: required members are signed even if empty, so a skill whose JSON leaves them
# out was signed with these, not with the defaults that a reader of the card shows instead.
_SKILL_DEFAULTS: Final[Tree] = {"description": "", "tags": []}


def payload(card: AgentCard) -> bytes:
    """A2A 1.0, 8.4.1: required members are present even if empty, others only if set."""
    return jcs.canonical(_tree_of(card))


def payloads(card: AgentCard) -> list[bytes]:
    """The forms to sign, so that every verifier finds one: as specified, and as the SDKs do."""
    return list(dict.fromkeys(jcs.canonical(form) for form in _forms(_tree_of(card))))


def _forms(tree: Tree) -> list[Tree]:
    """The same members as the specification, a2a-sdk and @a2a-js/sdk sign them, strictest first.

    @a2a-js/sdk 1.3 signs and verifies a card that it has read without its security schemes: it
    converts the card a second time, and the conversion knows each scheme by its JSON name alone.
    """
    rest = {name: value for name, value in tree.items() if name not in _SCHEMES}
    return [form for one in (tree, _without_empty(tree), _without_empty(rest)) if (form := one)]


def _tree_of(card: AgentCard) -> Tree:
    tree: Tree = msgspec.to_builtins(card)
    tree.pop("signatures", None)
    # 1.0 has no such member.
    tree["capabilities"].pop("stateTransitionHistory", None)
    return tree


def candidates(body: bytes) -> list[bytes]:
    """The forms that a signer of this card may have signed, each a card of its own.

    Signers differ in its canonical form: the specification keeps required
    members that are empty, the SDKs drop all that is empty, and others sign the JSON as it is.
    A reader that trusts a signature must use the form that was signed, and no other.
    """
    tree = protojson.parse(body, "card")
    if not isinstance(tree, dict):
        return []
    found: dict[bytes, None] = {}
    whole = {name: value for name, value in tree.items() if name != "signatures"}
    for form in (_as_specified(tree), whole):
        try:
            for one in _forms(form):
                found.setdefault(jcs.canonical(one))
        except (ValueError, RecursionError):
            continue
    return list(found)


def _as_specified(tree: Tree) -> Tree:
    """The members of 1.0 alone: a card may also have those of 0.3, which are not signed."""
    own = {name: value for name, value in _set(tree).items() if name in _NAMES}
    if isinstance(skills := own.get("skills"), list):
        own["skills"] = [
            _SKILL_DEFAULTS | _set(one) if isinstance(one, dict) else one for one in skills
        ]
    try:
        card = protojson.convert(CARD_DEFAULTS | own, AgentCard)
    except TrunklineError:
        return {}
    return _tree_of(card)


def _set(tree: Tree) -> Tree:
    """The tree without members that are null, which means the same as absent."""
    return {name: value for name, value in tree.items() if value is not None}


def _without_empty(tree: Any) -> Any:
    """The tree without empty texts, lists and objects, also those that only held such."""
    match tree:
        case dict():
            members = ((name, _without_empty(value)) for name, value in tree.items())
            return {name: value for name, value in members if value is not None} or None
        # A card as a tree of built-in values has tuples; parsed JSON has lists.
        case list() | tuple():
            return [value for one in tree if (value := _without_empty(one)) is not None] or None
        case "":
            return None
        case _:
            return tree


class Protected(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a protected header that the gateway reads (RFC 7515, 4.1)."""

    alg: str
    kid: str = ""
    crit: list[str] = []


def protected_of(signature: AgentCardSignature) -> Protected | None:
    try:
        return msgspec.json.decode(unpadded(signature.protected), type=Protected)
    except (ValueError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def signing_input(protected: str, payload: bytes) -> bytes:
    """RFC 7515, 5.1."""
    return protected.encode() + b"." + base64url(payload).encode()


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unpadded(text: str) -> bytes:
    """Base64url as JOSE writes it. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not base64url") from None
