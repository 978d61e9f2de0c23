"""Signatures of cards: those that the official SDK makes and checks, and what must not pass."""

import hmac
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from a2a.types import AgentCard as SdkCard
from a2a.utils.signing import ProtectedHeader, create_agent_card_signer, create_signature_verifier
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from jwt.api_jwk import PyJWK
from tests.unit.protocol import reference

from trunkline.app.card_signer import card_signer
from trunkline.model.card import AgentCard
from trunkline.protocol import card_reading
from trunkline.protocol.card_signing import (
    base64url,
    candidates,
    payload,
    payloads,
    signing_input,
)
from trunkline.protocol.jcs import canonical
from trunkline.remote import BadPeerAnswer, InvalidTarget, Target, connect, signers
from trunkline.remote.card_signatures import CardKeys, signature_statuses

KEYS: dict[str, ECKey | OKPKey | RSAKey] = {
    "ES256": ECKey.generate_key("P-256", {"kid": "k1"}),
    "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "k1"}),
    "RS256": RSAKey.generate_key(2048, {"kid": "k1"}),
}
OTHER = ECKey.generate_key("P-256", {"kid": "k2"})
INTERFACE = {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
FULL: dict[str, Any] = {
    "name": "Prüfer €",
    "description": "checks",
    "version": "1.0",
    "supportedInterfaces": [INTERFACE],
    "capabilities": {
        "streaming": False,
        "extensions": [{"uri": "urn:x", "params": {"n": 1, "f": 0.5, "s": "€"}}],
    },
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
    },
    "securityRequirements": [{"schemes": {"key": {"list": ["a"]}}}],
}
# What the specification keeps although it is empty, and the SDK does not.
SPARSE = FULL | {
    "description": "",
    "defaultOutputModes": [],
    "capabilities": {},
    "skills": [{"id": "s", "name": "S", "description": "", "tags": []}],
    "securitySchemes": {"mtls": {"mtlsSecurityScheme": {}}},
    "securityRequirements": [{"schemes": {"mtls": {}}}],
}


def public(key: Key) -> str:
    return json.dumps(key.as_dict(private=False))


def trusting(*keys: Key, is_required: bool = True) -> CardKeys:
    return CardKeys(tuple(public(key) for key in keys), is_required=is_required)


def signed_by_sdk(tree: dict[str, Any], algorithm: str) -> dict[str, Any]:
    key = PyJWK(KEYS[algorithm].as_dict(private=True), algorithm)
    header = ProtectedHeader(kid="k1", alg=algorithm, jku=None, typ="JOSE")
    signer = create_agent_card_signer(key, header)
    made: dict[str, Any] = reference.write(
        signer(reference.read(json.dumps(tree).encode(), SdkCard()))
    )
    return made


def signature(data: bytes, key: Key, *, alg: str = "ES256", **header: object) -> dict[str, str]:
    protected = base64url(json.dumps({"alg": alg, "kid": key.kid, **header}).encode())
    raw = JWSRegistry.algorithms[alg].sign(signing_input(protected, data), key)
    return {"protected": protected, "signature": base64url(raw)}


def as_specified(tree: dict[str, Any]) -> bytes:
    return payload(card_reading.decode(json.dumps(tree).encode()))


def signed_by_us(tree: dict[str, Any], key: Key = KEYS["ES256"], **header: Any) -> bytes:
    return json.dumps(
        tree | {"signatures": [signature(as_specified(tree), key, **header)]}
    ).encode()


@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize("tree", [FULL, SPARSE], ids=["full", "sparse"])
def test_a_card_that_the_sdk_has_signed(tree: dict[str, Any], algorithm: str) -> None:
    body = json.dumps(signed_by_sdk(tree, algorithm)).encode()
    card = trusting(OTHER, KEYS[algorithm]).read(body)
    assert signers(card) == ("k1",)
    assert card.name == "Prüfer €"
    assert card.supported_interfaces == card_reading.decode(body).supported_interfaces


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_sdk_takes_what_is_signed_as_specified(algorithm: str) -> None:
    body = signed_by_us(FULL, KEYS[algorithm], alg=algorithm)
    verify = create_signature_verifier(
        lambda kid, jku: PyJWK(KEYS[algorithm].as_dict(private=False), algorithm), [algorithm]
    )
    verify(reference.read(body, SdkCard()))


@pytest.mark.parametrize("tree", [FULL, SPARSE], ids=["full", "sparse"])
def test_a_card_that_was_signed_as_specified(tree: dict[str, Any]) -> None:
    card = trusting(KEYS["ES256"]).read(signed_by_us(tree))
    assert signers(card) == ("k1",)


def test_a_card_of_0_3_is_signed_as_it_is() -> None:
    tree = {"name": "Old", "protocolVersion": "0.3.0", "url": "https://old.example/", "skills": []}
    made = signature(canonical(tree), KEYS["ES256"])
    body = json.dumps(tree | {"signatures": [made]}).encode()
    assert signers(trusting(KEYS["ES256"]).read(body)) == ("k1",)


def test_keys_in_pem_and_in_a_set() -> None:
    body = signed_by_us(FULL)
    pem = KEYS["ES256"].as_pem(private=False).decode()
    jwks = json.dumps({"keys": [json.loads(public(OTHER)), json.loads(public(KEYS["ES256"]))]})
    for text in (pem, jwks):
        assert signers(CardKeys((text,), is_required=True).read(body)) == ("k1",)
    for algorithm in ("EdDSA", "RS256"):
        pem = KEYS[algorithm].as_pem(private=False).decode()
        body = signed_by_us(FULL, KEYS[algorithm], alg=algorithm)
        assert signers(CardKeys((pem,), is_required=True).read(body)) == ("k1",)


@pytest.mark.parametrize("is_required", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        {"name": "Another"},
        {"supportedInterfaces": [INTERFACE | {"url": "https://evil.example/"}]},
        {"capabilities": {}},
        {"provider": {"url": "https://evil.example", "organization": "Evil"}},
        {"securitySchemes": {}},
        {"securityRequirements": []},
    ],
)
def test_a_card_that_was_changed(change: dict[str, Any], is_required: bool) -> None:
    body = json.dumps(json.loads(signed_by_us(FULL)) | change).encode()
    with pytest.raises(BadPeerAnswer, match='not what the key "k1" signed') as bad:
        trusting(KEYS["ES256"], is_required=is_required).read(body)
    assert bad.value.reason == "BAD_SIGNATURE"


def test_what_nobody_signed_is_no_part_of_the_card() -> None:
    """Members of 0.3 name interfaces as well; beside a signed card of 1.0 they do not count."""
    more = {
        "url": "https://evil.example/",
        "additionalInterfaces": [{"url": "https://evil.example/2", "transport": "JSONRPC"}],
    }
    body = json.dumps(json.loads(signed_by_us(FULL)) | more).encode()
    assert len(card_reading.decode(body).supported_interfaces) == 3
    card = trusting(KEYS["ES256"]).read(body)
    assert [one.url for one in card.supported_interfaces] == ["https://a.example/"]


def test_schemes_that_no_signature_covers_are_no_part_of_the_card() -> None:
    """@a2a-js/sdk signs a card without its security schemes."""
    *_, without_schemes = payloads(card_reading.decode(json.dumps(FULL).encode()))
    tree = FULL | {"signatures": [signature(without_schemes, KEYS["ES256"])]}
    token = {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://x"}}}}
    for schemes in (FULL["securitySchemes"], {"key": token}):
        body = json.dumps(tree | {"securitySchemes": schemes}).encode()
        card = trusting(KEYS["ES256"]).read(body)
        assert (signers(card), card.security_schemes) == (("k1",), {})
        assert list(card.security_requirements[0].schemes) == ["key"]


def test_who_is_not_known_proves_nothing() -> None:
    body = signed_by_us(FULL)
    with pytest.raises(BadPeerAnswer, match="none of its signatures is by a key of the target"):
        trusting(OTHER).read(body)
    card = trusting(OTHER, is_required=False).read(body)
    assert (card.name, card.signatures) == ("Prüfer €", ())


def test_a_card_without_signature() -> None:
    body = json.dumps(FULL).encode()
    with pytest.raises(BadPeerAnswer, match="must be signed, and it has no signature"):
        trusting(OTHER).read(body)
    assert trusting(OTHER, is_required=False).read(body).name == "Prüfer €"


def test_one_good_signature_among_others_is_enough() -> None:
    tree = json.loads(signed_by_us(FULL))
    noise = [
        {"protected": "%", "signature": "%"},
        {"protected": base64url(b"[]"), "signature": ""},
        signature(b"something else", OTHER),
    ]
    body = json.dumps(tree | {"signatures": [*noise, *tree["signatures"]]}).encode()
    assert signers(trusting(KEYS["ES256"]).read(body)) == ("k1",)


@pytest.mark.parametrize(
    "header",
    [{"crit": ["b64"], "b64": False}, {"alg_is": "none"}, {"alg_is": "HS256"}, {"alg_is": "RS256"}],
)
def test_a_signature_does_not_choose_how_it_is_checked(header: dict[str, Any]) -> None:
    """Not unsigned, not with the public key as a password, not by rules of its own."""
    key = KEYS["ES256"]
    alg = header.pop("alg_is", "ES256")
    protected = base64url(json.dumps({"alg": alg, "kid": "k1", **header}).encode())
    data = signing_input(protected, as_specified(FULL))
    raw = b""
    if alg == "HS256":
        raw = hmac.digest(key.as_pem(private=False), data, "sha256")
    elif alg == "ES256":
        raw = JWSRegistry.algorithms[alg].sign(data, key)
    tree = FULL | {"signatures": [{"protected": protected, "signature": base64url(raw)}]}
    with pytest.raises(BadPeerAnswer):
        trusting(key).read(json.dumps(tree).encode())


def test_what_has_no_canonical_form_is_not_signed() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    extension = {"uri": "urn:x", "params": {"deep": deep}}
    tree = FULL | {"capabilities": {"extensions": [extension]}}
    body = json.dumps(tree | {"signatures": [signature(b"{}", KEYS["ES256"])]}).encode()
    assert candidates(body) == []
    with pytest.raises(BadPeerAnswer):
        trusting(KEYS["ES256"]).read(body)


NO_KEYS = {
    "text": ("nonsense", "neither a public key in PEM nor a JWK nor a JWK Set"),
    "a-list": ("[]", "neither"),
    "no-list": ('{"keys": 1}', "neither"),
    "no-numbers": ('{"kty": "EC"}', "neither"),
    "no-pem": ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "neither"),
    "an-empty-set": ('{"keys": []}', "no key is given"),
    "a-private-jwk": (json.dumps(OTHER.as_dict(private=True)), "is private"),
    "a-private-pem": (OTHER.as_pem(private=True).decode(), "is private"),
    "a-password": (
        json.dumps(OctKey.generate_key(256).as_dict()),
        "of the kind oct; known are EC P-256",
    ),
    "another-curve": (public(ECKey.generate_key("P-384")), "of the kind EC P-384"),
}


@pytest.mark.parametrize("name", NO_KEYS)
def test_a_key_that_is_none(name: str) -> None:
    text, told = NO_KEYS[name]
    with pytest.raises(InvalidTarget, match=told) as bad:
        connect(Target(url="https://a.example", card_keys=(text,)))
    assert "AAAA" not in bad.value.message
    assert str(OTHER.as_dict(private=True)["d"]) not in bad.value.message


def test_a_signature_is_required_and_no_key_is_given() -> None:
    with pytest.raises(InvalidTarget, match="no key is given"):
        connect(Target(url="https://a.example", require_signature=True))


def test_the_canonical_form_knows_1_0_alone() -> None:
    body = json.dumps(FULL | {"capabilities": {"stateTransitionHistory": True}}).encode()
    tree = msgspec.json.decode(payload(card_reading.decode(body)))
    assert tree["capabilities"] == {}
    assert "signatures" not in tree
    assert isinstance(card_reading.decode(payload(card_reading.decode(body))), AgentCard)


# The verdict on each signature, for views of cards.


def signed_by_gateway(tmp_path: Path) -> tuple[bytes, str]:
    """A card of this gateway, and its JWK Set."""
    file = tmp_path / "card.pem"
    file.write_bytes(KEYS["EdDSA"].as_pem(private=True))
    signer = card_signer(str(file), base_url="https://gateway.example")
    card = signer.sign(card_reading.decode(json.dumps(FULL).encode()))
    return msgspec.json.encode(card), signer.jwks().decode()


def test_the_signatures_of_a_gateway_are_valid_with_its_jwks(tmp_path: Path) -> None:
    body, jwks = signed_by_gateway(tmp_path)
    found = signature_statuses(body, [jwks])
    assert found
    for each in found:
        assert (each.verdict, each.algorithm) == ("valid", "EdDSA")
        assert each.key_id == KEYS["EdDSA"].thumbprint()


def test_a_changed_card_and_unknown_keys(tmp_path: Path) -> None:
    body, jwks = signed_by_gateway(tmp_path)
    changed = body.replace(b"checks", b"checked")
    assert {each.verdict for each in signature_statuses(changed, [jwks])} == {"invalid"}
    other = json.dumps(OTHER.as_dict(private=False))
    for keys in ([other], []):
        found = signature_statuses(body, keys)
        assert {each.verdict for each in found} == {"unknown_key"}
        assert all(each.key_id and each.text for each in found)


def test_signatures_that_cannot_be_read(tmp_path: Path) -> None:
    body, jwks = signed_by_gateway(tmp_path)
    tree = json.loads(body)
    tree["signatures"] = [{"protected": "!", "signature": "!"}]
    [found] = signature_statuses(json.dumps(tree).encode(), [jwks])
    assert (found.verdict, found.key_id, found.algorithm) == ("invalid", "", "")
    [found] = signature_statuses(json.dumps(tree).encode(), [])
    assert found.verdict == "unknown_key"
    header = base64url(json.dumps({"alg": "x" * 9999, "kid": "y" * 9999}).encode())
    tree["signatures"] = [{"protected": header, "signature": ""}] * 100
    found_many = signature_statuses(json.dumps(tree).encode(), [jwks])
    assert len(found_many) <= 16
    assert {each.verdict for each in found_many} == {"unknown_key"}
    assert all(len(each.key_id) + len(each.algorithm) < 300 for each in found_many)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b"\xff"])
def test_what_is_no_card_has_no_signatures(body: bytes) -> None:
    assert signature_statuses(body, []) == []
    assert signature_statuses(body, [json.dumps(OTHER.as_dict(private=False))]) == []


def test_without_the_package_every_key_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, jwks = signed_by_gateway(tmp_path)
    monkeypatch.setitem(sys.modules, "joserfc.jwk", None)
    found = signature_statuses(body, [jwks])
    assert {each.verdict for each in found} == {"unknown_key"}
    assert all("needs a package" in each.text for each in found)
    found = signature_statuses(body, ["nonsense"])
    assert {each.verdict for each in found} == {"unknown_key"}
