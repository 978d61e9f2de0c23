import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.protocol.test_cards import CARD

from trunkline.model.card import AgentInterface
from trunkline.model.errors import InvalidAgentResponse
from trunkline.protocol import cards
from trunkline.protocol.card_reading import decode, version_of
from trunkline.protocol.cards import STANDARD
from trunkline.protocol.openclaw import CARD_SHAPES
from trunkline.protocol.versions import Version


def read(tree: Any) -> Any:
    return decode(json.dumps(tree).encode())


@pytest.mark.parametrize("form", ["1.0", "hybrid"])
def test_a_card_is_read_as_it_was_written(form: cards.Form) -> None:
    assert decode(cards.encode(CARD, form)) == CARD


STYLES = {"standard": STANDARD} | CARD_SHAPES


@pytest.mark.parametrize("style", STYLES)
def test_a_card_of_0_3_loses_only_what_0_3_cannot_say(style: str) -> None:
    card = decode(cards.encode(CARD, "0.3", STYLES[style]))
    spoken = [(i.url, i.protocol_binding, version_of(i)) for i in card.supported_interfaces]
    assert spoken == [
        (i.url, i.protocol_binding, Version.V0_3)
        for i in CARD.supported_interfaces
        if i.protocol_version == "0.3"
    ]
    # A word that only 0.3 has.
    said = card.capabilities.state_transition_history
    assert said is STYLES[style].state_transition_history
    capabilities = replace(CARD.capabilities, state_transition_history=said)
    expected = replace(CARD, capabilities=capabilities)
    for name in CARD.__struct_fields__:
        if name != "supported_interfaces":
            assert getattr(card, name) == getattr(expected, name), name


MINIMAL = {"name": "n", "url": "https://x/"}


def test_a_card_that_says_little_is_understood() -> None:
    card = read(MINIMAL | {"skills": [{"id": "s", "name": "S"}], "provider": None})
    [interface] = card.supported_interfaces
    assert (interface.url, interface.protocol_binding) == ("https://x/", "JSONRPC")
    assert version_of(interface) is Version.V0_3
    assert card.skills[0].description == "S"


def test_interfaces_of_0_3_beside_those_of_1_0_are_kept() -> None:
    own = {"url": "https://x/1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = read(MINIMAL | {"supportedInterfaces": [own], "protocolVersion": "0.3.0"})
    assert [version_of(i) for i in card.supported_interfaces] == [Version.V1_0, Version.V0_3]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0", Version.V1_0),
        ("1.0.1", Version.V1_0),
        ("0.3.0", Version.V0_3),
        ("0.2.6", Version.V0_3),
        ("1.1", None),
        ("2.0", None),
        ("", None),
        ("x", None),
    ],
)
def test_versions(version: str, expected: Version | None) -> None:
    interface = AgentInterface(url="u", protocol_binding="JSONRPC", protocol_version=version)
    assert version_of(interface) is expected


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>", "not valid"),
        (b"[]", "not a JSON object"),
        (b'{"name":"n"}', "names no interface"),
        (b'{"url":"https://x/"}', "name: is required"),
        (b'{"name":7,"url":"https://x/"}', "name: must be a string"),
        (b'{"name":"n","url":"u","capabilities":[]}', "capabilities: must be an object"),
        (b'{"name":"n","supportedInterfaces":[{"url":[]}]}', "url: must be a string"),
        (
            b'{"name":"n","supportedInterfaces":[{"url":"u","protocolBinding":{}}]}',
            "protocolBinding: must be a string",
        ),
    ],
)
def test_what_is_no_card_says_why(body: bytes, text: str) -> None:
    with pytest.raises(InvalidAgentResponse, match=text):
        decode(body)
