"""`CardKeys`: checks that a card was signed with a trusted key (A2A 1.0 §8.4, JWS)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trunkline.extras import install_command
from trunkline.model.card import AgentCard, AgentCardSignature
from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.findings import SignatureStatus, Verdict
from trunkline.protocol import card_reading, card_signing
from trunkline.remote.errors import BadPeerAnswer, InvalidTarget

if TYPE_CHECKING:
    from joserfc.jwk import Key

# Each algorithm goes with one kind of key, so that no signature can choose how it is checked.
_ALGORITHMS: Final = {
    "ES256": ("EC", "P-256"),
    "RS256": ("RSA", ""),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}
# Signatures of one card that are checked; each may cost one attempt per key.
_MAX_SIGNATURES: Final = 16
_MIN_RSA_BITS: Final = 2048
# Of the texts of a header that a view repeats.
_SHOWN_CHARS: Final = 128


class CardKeys:
    """The public keys that may sign the card of a target."""

    def __init__(self, texts: tuple[str, ...], *, is_required: bool) -> None:
        """Each text is a key in PEM, a JWK or a JWK Set. Raises InvalidTarget."""
        self._is_required = is_required
        self._keys = [key for text in texts for key in _keys_in(text)]
        if not self._keys:
            raise InvalidTarget("a card is to be checked for its signature, but no key is given")

    def read(self, body: bytes) -> AgentCard:
        """The card as it was signed, with its valid `signatures`.

        Unsigned fields are left out. A card that no known key signed is returned without
        `signatures`, unless one is required. Raises BadPeerAnswer, and InvalidAgentResponse as
        for any other card.
        """
        card = card_reading.decode(body)
        forms = card_signing.candidates(body) if card.signatures else []
        signatures = card.signatures[:_MAX_SIGNATURES]
        for form in forms:
            good = [one for one in signatures if self._is_good(one, form)]
            if good:
                signed = card_reading.decode(form)
                return msgspec.structs.replace(signed, signatures=tuple(good))
        own = {_kid(key) for key in self._keys}
        refuted = [kid for kid in _kids_of(signatures) if kid in own]
        if refuted and refuted[-1]:
            raise _bad(
                f'the agent card is not what the key "{refuted[-1][:64]}" signed: it was changed '
                "since, or the key is another one"
            )
        if self._is_required:
            why = (
                "none of its signatures is by a key of the target"
                if card.signatures
                else "it has no signature"
            )
            raise _bad(f"the agent card must be signed, and {why}")
        return msgspec.structs.replace(card, signatures=())

    def statuses(self, body: bytes) -> list[SignatureStatus]:
        """The verdict on each signature of the card, in their order. Raises InvalidAgentResponse
        for what is no card."""
        signatures = card_reading.decode(body).signatures[:_MAX_SIGNATURES]
        forms = card_signing.candidates(body) if signatures else []
        return [self._status(one, forms) for one in signatures]

    def _status(self, signature: AgentCardSignature, forms: list[bytes]) -> SignatureStatus:
        protected = card_signing.protected_of(signature)
        if protected is None:
            text = "Its protected header cannot be read"
            return SignatureStatus(key_id="", algorithm="", verdict="invalid", text=text)
        known = {_kid(key) for key in self._keys}
        verdict: Verdict = "unknown_key"
        text = "No key of this id is known here, so the signature was not checked"
        if any(self._is_good(signature, form) for form in forms):
            verdict, text = "valid", "The card is what this key signed"
        elif protected.kid in known:
            verdict, text = "invalid", "The card is not what this key signed"
        return SignatureStatus(
            key_id=protected.kid[:_SHOWN_CHARS],
            algorithm=protected.alg[:_SHOWN_CHARS],
            verdict=verdict,
            text=text,
        )

    def _is_good(self, signature: AgentCardSignature, payload: bytes) -> bool:
        protected = card_signing.protected_of(signature)
        # RFC 7515, 4.1.11: critical headers must be understood, and we understand none.
        if protected is None or protected.crit or protected.alg not in _ALGORITHMS:
            return False
        try:
            raw = card_signing.unpadded(signature.signature)
        except ValueError:
            return False
        data = card_signing.signing_input(signature.protected, payload)
        return any(
            _verify(key, protected.alg, data, raw)
            for key in self._keys
            if _kid(key) in ("", protected.kid)
        )


def signature_statuses(body: bytes, keys: Sequence[str]) -> list[SignatureStatus]:
    """The verdict on each signature of a card. Each key is one in PEM, a JWK or a JWK Set, such as
    `CardSigner.jwks` returns; nothing is fetched. Never raises: without keys that can be used,
    every signature has an unknown key, and its text says why."""
    try:
        card = card_reading.decode(body)
    except InvalidAgentResponse:
        return []
    why = "No key is known here, so the signature was not checked"
    if keys:
        try:
            return CardKeys(tuple(keys), is_required=False).statuses(body)
        except InvalidTarget as error:
            why = f"The signature was not checked: {error.message}"
    found = [(one, card_signing.protected_of(one)) for one in card.signatures[:_MAX_SIGNATURES]]
    return [
        SignatureStatus(
            key_id="" if protected is None else protected.kid[:_SHOWN_CHARS],
            algorithm="" if protected is None else protected.alg[:_SHOWN_CHARS],
            verdict="unknown_key",
            text=why,
        )
        for _, protected in found
    ]


def signers(card: AgentCard) -> tuple[str, ...]:
    """The ids of the keys that a card was checked with; none if it is not signed."""
    return _kids_of(card.signatures)


def _kids_of(signatures: tuple[AgentCardSignature, ...]) -> tuple[str, ...]:
    found = (card_signing.protected_of(one) for one in signatures)
    return tuple([one.kid for one in found if one is not None])


def _bad(message: str) -> BadPeerAnswer:
    return BadPeerAnswer(message, reason="BAD_SIGNATURE")


def _kid(key: "Key") -> str:
    return key.kid or ""


def _verify(key: "Key", algorithm: str, data: bytes, signature: bytes) -> bool:
    from joserfc.jws import JWSRegistry

    if _kind(key) != _ALGORITHMS[algorithm]:
        return False
    return bool(JWSRegistry.algorithms[algorithm].verify(data, signature, key))


def _kind(key: Any) -> tuple[str, str]:
    return key.key_type, getattr(key, "curve_name", "")


def _keys_in(text: str) -> "list[Key]":
    try:
        from joserfc.errors import JoseError
        from joserfc.jwk import import_key
    except ImportError:
        raise InvalidTarget(
            "checking the signature of a card needs a package that is not installed: "
            f"{install_command('signatures')}"
        ) from None
    if "PRIVATE KEY" in text:
        raise _private()
    try:
        if "-----BEGIN" in text:
            keys = [_from_pem(text)]
        else:
            tree = msgspec.json.decode(text)
            keys = [import_key(one) for one in tree.get("keys", [tree])]
    except (JoseError, ValueError, TypeError, AttributeError):
        raise InvalidTarget(
            "a key for card signatures is neither a public key in PEM nor a JWK nor a JWK Set"
        ) from None
    for key in keys:
        _check(key)
    return keys


def _from_pem(text: str) -> "Key":
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    for kind in (ECKey, OKPKey):
        try:
            return kind.import_key(text)
        except (JoseError, ValueError, TypeError):
            continue
    return RSAKey.import_key(text)


def _private() -> InvalidTarget:
    return InvalidTarget("a key for card signatures is private; give the public one")


def _check(key: Any) -> None:
    kind = _kind(key)
    if kind not in _ALGORITHMS.values():
        raise InvalidTarget(
            f"a key for card signatures is of the kind {' '.join(kind).strip()}; known are "
            "EC P-256 (ES256), OKP Ed25519 (EdDSA) and RSA (RS256)"
        )
    if key.is_private:
        raise _private()
    if kind[0] == "RSA" and key.public_key.key_size < _MIN_RSA_BITS:
        raise InvalidTarget(f"an RSA key for card signatures has less than {_MIN_RSA_BITS} bits")
