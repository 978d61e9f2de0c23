import json
from typing import Any

import pytest

from trunkline.protocol import card_reading
from trunkline.protocol.relay.v1.cards import card_at_relay

URL = "https://relay.example/t/acme/a2a/helper"


def at_relay(card: Any) -> Any:
    text = card if isinstance(card, bytes) else json.dumps(card).encode()
    return json.loads(card_at_relay(text, name="helper", url=URL))


def test_only_addresses_credentials_and_capabilities_are_replaced() -> None:
    own = {
        "name": "H",
        "description": "d",
        "version": "7",
        "url": "http://10.0.0.7",
        "preferredTransport": "GRPC",
        "additionalInterfaces": [{"url": "http://10.0.0.7/grpc", "transport": "GRPC"}],
        "supportedInterfaces": [{"url": "http://10.0.0.7", "protocolBinding": "GRPC"}],
        "security": [{"own": []}],
        "securitySchemes": {"own": {"type": "apiKey", "in": "header", "name": "X"}},
        "capabilities": {"pushNotifications": True, "extensions": [{"uri": "urn:x"}]},
        "skills": [{"id": "s"}],
        "x-more": {"kept": [True]},
        "signatures": [{}],
    }
    served = at_relay(own)
    for name in ("name", "description", "version", "skills", "x-more"):
        assert served[name] == own[name]
    assert "10.0.0.7" not in json.dumps(served)
    assert served["capabilities"]["extensions"] == [{"uri": "urn:x"}]
    assert served["capabilities"]["pushNotifications"] is False
    assert [*served["securitySchemes"]] == ["bearer"]
    assert "signatures" not in served


def test_bytes_of_members_that_are_kept_do_not_change() -> None:
    given = b'{"name" : "H","x":{"n": 1.50e0, "big":12345678901234567890123 , "u":"\\u00e9"}}'
    served = card_at_relay(given, name="helper", url=URL)
    assert b'{"n": 1.50e0, "big":12345678901234567890123 , "u":"\\u00e9"}' in served


@pytest.mark.parametrize("card", [{}, {"name": "H"}, {"capabilities": {}}])
def test_the_card_can_be_read_by_clients_of_both_versions(card: Any) -> None:
    served = at_relay(card)
    assert served["name"] == card.get("name", "helper")
    assert served["url"] == URL
    decoded = card_reading.decode(json.dumps(served).encode())
    bindings = {
        (each.protocol_binding, each.protocol_version[:3], each.url)
        for each in decoded.supported_interfaces
    }
    assert bindings == {
        (binding, version, URL)
        for binding in ("JSONRPC", "HTTP+JSON")
        for version in ("1.0", "0.3")
    }


@pytest.mark.parametrize(
    "card", [b"", b"[]", b"7", b'{"capabilities":[]}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_card_is_refused(card: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        card_at_relay(card, name="helper", url=URL)
