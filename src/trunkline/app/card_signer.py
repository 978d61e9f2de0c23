"""`CardSigner`: signs the agent cards with the gateway's own key (A2A §8.4)."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from trunkline.extras import install_command
from trunkline.model.card import AgentCard, AgentCardSignature
from trunkline.model.errors import ConfigError
from trunkline.protocol.card_signing import base64url, payloads, signing_input

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

JWKS_PATH: Final = "/.well-known/jwks.json"
_MIN_RSA_BITS: Final = 2048


class CardSigner:
    def __init__(self, key: "ECKey | OKPKey | RSAKey", algorithm: str, *, base_url: str) -> None:
        self._key = key
        self._algorithm = algorithm
        # The thumbprint identifies the key wherever it is used (RFC 7638).
        self.kid = key.kid or key.thumbprint()
        self.jku = base_url + JWKS_PATH

    def sign(self, card: AgentCard) -> AgentCard:
        """The card with our signatures only: signatures of another card do not match this one."""
        from joserfc.jws import JWSRegistry

        header = {"alg": self._algorithm, "kid": self.kid, "typ": "JOSE", "jku": self.jku}
        protected = base64url(msgspec.json.encode(header))
        algorithm = JWSRegistry.algorithms[self._algorithm]
        made = [
            AgentCardSignature(
                protected=protected,
                signature=base64url(algorithm.sign(signing_input(protected, one), self._key)),
            )
            for one in payloads(card)
        ]
        return replace(card, signatures=tuple(made))

    def jwks(self) -> bytes:
        """The public key, for clients that verify the signatures."""
        public = self._key.as_dict(private=False)
        known = {**public, "kid": self.kid, "alg": self._algorithm, "use": "sig"}
        return msgspec.json.encode({"keys": [known]})


def card_signer(path: str, *, base_url: str) -> CardSigner:
    """A signer with the private key in the file, which is PEM or a JWK. Raises ConfigError."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text"
        raise ConfigError(f"server.card_key_path: cannot read {path}: {why}.") from None
    try:
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, OKPKey, RSAKey
    except ImportError:
        raise ConfigError(
            "server.card_key_path needs a package that is not installed. Install it: "
            f"{install_command('signatures')}"
        ) from None
    for kind, curve, algorithm in (
        (ECKey, "P-256", "ES256"),
        (OKPKey, "Ed25519", "EdDSA"),
        (RSAKey, "", "RS256"),
    ):
        try:
            key = kind.import_key(text if "-----BEGIN" in text else msgspec.json.decode(text))
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
        is_strong = not isinstance(key, RSAKey) or key.public_key.key_size >= _MIN_RSA_BITS
        if key.is_private and is_strong and getattr(key, "curve_name", "") == curve:
            return CardSigner(key, algorithm, base_url=base_url)
    raise ConfigError(
        f"server.card_key_path: {path} holds no private key that cards can be signed with. Take "
        f"EC P-256, Ed25519, or RSA of {_MIN_RSA_BITS} bits or more, in PEM without a password or "
        f"as a JWK, for example: openssl genpkey -algorithm ed25519 -out {Path(path).name}"
    )
