"""Which bytes of a card are signed, and which bytes another signer may have signed."""

import json
from typing import Any

import msgspec
import pytest
from a2a.types import AgentCard as SdkCard
from a2a.utils.signing import _canonicalize_agent_card  # the reference, which has no other door
from tests.unit.protocol import reference

from trunkline.model.card import AgentCard, AgentCardSignature
from trunkline.protocol import card_reading, cards
from trunkline.protocol.card_signing import (
    Protected,
    base64url,
    candidates,
    payload,
    payloads,
    protected_of,
    signing_input,
    unpadded,
)

INTERFACE = {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
OLD_INTERFACE = INTERFACE | {"protocolVersion": "0.3"}
# A requirement without scopes is an object whose only member is empty.
NO_SCOPES: list[dict[str, Any]] = [{"schemes": {"bearer": {}}}]
CARD: dict[str, Any] = {
    "name": "Locked",
    "description": "needs a key",
    "version": "1.0",
    "supportedInterfaces": [INTERFACE, OLD_INTERFACE],
    "capabilities": {"streaming": True, "extensions": [{"uri": "urn:x", "params": {"none": []}}]},
    "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
    "securityRequirements": NO_SCOPES,
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": [],
    "skills": [
        {"id": "s", "name": "S", "description": "", "tags": [], "securityRequirements": NO_SCOPES}
    ],
}


def read(tree: dict[str, Any]) -> AgentCard:
    return card_reading.decode(json.dumps(tree).encode())


def sdk_payload(body: bytes) -> bytes:
    card = reference.read(body, SdkCard(), ignore_unknown_fields=True)
    return _canonicalize_agent_card(card).encode()


def test_one_payload_is_as_specified_and_one_as_the_sdk_has_it() -> None:
    specified, of_sdk, _ = payloads(read(CARD))
    assert specified == payload(read(CARD))
    assert msgspec.json.decode(specified)["securityRequirements"] == NO_SCOPES
    assert of_sdk == sdk_payload(json.dumps(CARD).encode())


def test_one_payload_is_as_the_javascript_sdk_has_it_for_a_card_that_it_has_read() -> None:
    _, of_sdk, of_javascript = map(msgspec.json.decode, payloads(read(CARD)))
    del of_sdk["securitySchemes"]
    assert of_javascript == of_sdk


def test_a_card_without_schemes_and_empty_members_has_one_payload() -> None:
    skill = {"id": "s", "name": "S", "description": "d", "tags": ["t"]}
    full = CARD | {"defaultOutputModes": ["text/plain"], "skills": [skill]}
    full |= {"capabilities": {"streaming": True}}
    del full["securityRequirements"], full["securitySchemes"]
    assert len(payloads(read(full))) == 1


def test_a_hybrid_card_may_have_been_signed_in_the_form_of_the_sdk() -> None:
    hybrid = cards.encode(read(CARD), "hybrid")
    assert b'"security":' in hybrid
    assert sdk_payload(hybrid) in candidates(hybrid)


def test_a_hybrid_card_may_have_been_signed_as_specified() -> None:
    assert payload(read(CARD)) in candidates(cards.encode(read(CARD), "hybrid"))


def test_a_signer_that_leaves_out_empty_members_of_skills_did_not_sign_others_for_them() -> None:
    """The JSON of the SDKs has no empty texts and lists, so the card in front of us has none."""
    written = json.loads(cards.encode(read(CARD), "hybrid"))
    for name in ("description", "tags"):
        del written["skills"][0][name]
    del written["defaultOutputModes"]
    body = json.dumps(written).encode()
    assert sdk_payload(body) in candidates(body)
    assert payload(read(CARD)) in candidates(body)


def test_the_signing_input_is_that_of_rfc_7515() -> None:
    # Appendix A.1 of RFC 7515: the header, a dot, and the payload in base64url.
    assert signing_input("eyJ0eXAiOiJKV1QifQ", b'{"iss":"joe"}') == (
        b"eyJ0eXAiOiJKV1QifQ.eyJpc3MiOiJqb2UifQ"
    )


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", b"\xff\xfe\xfd"])
def test_base64url_has_no_padding_and_reads_back(data: bytes) -> None:
    text = base64url(data)
    assert not set(text) & set("+/=")
    assert unpadded(text) == data


@pytest.mark.parametrize("text", ["a", "ab!d", "é", "ab d"])
def test_what_is_not_base64url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64url|ASCII"):
        unpadded(text)


def test_the_protected_header_names_the_algorithm_and_the_key() -> None:
    protected = base64url(b'{"alg":"ES256","kid":"one","typ":"JOSE"}')
    header = protected_of(AgentCardSignature(protected=protected, signature=""))
    assert header == Protected(alg="ES256", kid="one")


@pytest.mark.parametrize(
    "protected", ["", "!!", base64url(b"no json"), base64url(b'{"kid":"one"}')]
)
def test_a_protected_header_that_cannot_be_read_is_none(protected: str) -> None:
    assert protected_of(AgentCardSignature(protected=protected, signature="")) is None


def test_json_that_is_not_a_card_was_signed_by_nobody() -> None:
    assert candidates(b"[]") == []


def test_a_card_that_is_not_of_1_0_may_have_been_signed_as_its_json() -> None:
    assert candidates(b'{"b":1,"a":null,"name":["not a name"]}') != []
