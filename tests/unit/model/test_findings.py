"""Findings as the HTTP interface gives them."""

import msgspec

from trunkline.model.findings import FINDING_TEXTS, Finding, SignatureStatus


def test_every_member_of_a_finding_has_its_text() -> None:
    assert set(FINDING_TEXTS) == {f"Finding.{name}" for name in Finding.__struct_fields__}


def test_a_status_of_a_signature_is_json_in_camel_case() -> None:
    status = SignatureStatus(key_id="k1", algorithm="ES256", verdict="valid", text="Signed by us")
    assert msgspec.json.decode(msgspec.json.encode(status)) == {
        "keyId": "k1",
        "algorithm": "ES256",
        "verdict": "valid",
        "text": "Signed by us",
    }
