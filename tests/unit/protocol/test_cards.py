import json
from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as types_03
from a2a.types import a2a_pb2
from tests.unit.protocol import reference as proto

from trunkline.model.card import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    ApiKeySecurityScheme,
    HttpAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from trunkline.model.errors import InvalidParams, VersionNotSupported
from trunkline.protocol import cards
from trunkline.protocol.openclaw import CARD_SHAPES
from trunkline.protocol.v03 import V03, V03_REST
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version


def interface(binding: str, version: str) -> AgentInterface:
    return AgentInterface(
        url=f"https://x.example/{binding}/{version}",
        protocol_binding=binding,
        protocol_version=version,
    )


FLOWS = {"authorizationCode": {"authorizationUrl": "a", "tokenUrl": "t", "scopes": {"s": "d"}}}
CARD = AgentCard(
    name="Rust expert",
    description="Knows Rust",
    version="1.2.3",
    supported_interfaces=(
        interface("JSONRPC", "1.0"),
        interface("HTTP+JSON", "1.0"),
        interface("JSONRPC", "0.3"),
        interface("HTTP+JSON", "0.3"),
    ),
    provider=AgentProvider(url="https://x.example", organization="X"),
    documentation_url="https://x.example/docs",
    icon_url="https://x.example/icon.png",
    capabilities=AgentCapabilities(
        streaming=True,
        push_notifications=False,
        extended_agent_card=True,
        extensions=(AgentExtension(uri="urn:x", required=True, params={"a": 1}),),
    ),
    security_schemes={
        "key": SecurityScheme(
            api_key_security_scheme=ApiKeySecurityScheme(location="header", name="X-Key")
        ),
        "bearer": SecurityScheme(
            http_auth_security_scheme=HttpAuthSecurityScheme(
                scheme="bearer", bearer_format="JWT", description="d"
            )
        ),
        "oauth": SecurityScheme(oauth2_security_scheme={"flows": FLOWS}),
        "oidc": SecurityScheme(open_id_connect_security_scheme={"openIdConnectUrl": "u"}),
        "mtls": SecurityScheme(mtls_security_scheme={}),
    },
    security_requirements=(
        SecurityRequirement(schemes={"oauth": StringList(list=("s",)), "key": StringList()}),
    ),
    default_input_modes=("text/plain",),
    default_output_modes=("text/plain",),
    skills=(
        AgentSkill(
            id="ask",
            name="Ask",
            description="Ask anything",
            tags=("rust",),
            examples=("Why?",),
            input_modes=("text/plain",),
            output_modes=("text/plain",),
            security_requirements=(SecurityRequirement(schemes={"key": StringList()}),),
        ),
    ),
    signatures=(AgentCardSignature(protected="p", signature="s", header={"kid": "k"}),),
)
MINIMAL = AgentCard(
    name="n",
    description="",
    version="1",
    supported_interfaces=(interface("JSONRPC", "1.0"),),
    capabilities=AgentCapabilities(),
    default_input_modes=(),
    default_output_modes=(),
    skills=(),
)


def reference(card: AgentCard) -> a2a_pb2.AgentCard:
    return proto.read(cards.encode(card, "1.0"), a2a_pb2.AgentCard())


def test_the_card_of_1_0_is_that_of_the_reference() -> None:
    assert proto.write(reference(CARD)) == json.loads(cards.encode(CARD, "1.0"))


def test_required_members_are_there_when_empty() -> None:
    told = json.loads(cards.encode(MINIMAL, "1.0"))
    assert told["capabilities"] == {}
    assert told["skills"] == told["defaultInputModes"] == told["defaultOutputModes"] == []
    assert told["description"] == ""


def test_the_card_of_0_3_is_that_of_the_reference() -> None:
    expected = conversions.to_compat_agent_card(reference(CARD))
    # The card of 0.3 has three numbers in its version.
    expected.protocol_version = "0.3.0"
    written = types_03.AgentCard.model_validate_json(cards.encode(CARD, "0.3"))
    assert written == expected


def dump(card: types_03.AgentCard) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(card.model_dump_json(by_alias=True, exclude_none=True))
    return told


def test_the_hybrid_card_is_read_by_both_generations() -> None:
    hybrid = cards.encode(CARD, "hybrid")
    old = types_03.AgentCard.model_validate_json(hybrid)
    assert dump(old) == dump(types_03.AgentCard.model_validate_json(cards.encode(CARD, "0.3")))
    new = parse_agent_card(json.loads(hybrid))
    assert new == reference(CARD)


def test_the_hybrid_card_keeps_every_member_of_1_0() -> None:
    hybrid, plain = (json.loads(cards.encode(CARD, form)) for form in ("hybrid", "1.0"))
    assert {name: hybrid[name] for name in plain if name not in ("securitySchemes", "skills")} == {
        name: plain[name] for name in plain if name not in ("securitySchemes", "skills")
    }
    assert hybrid["url"] == "https://x.example/JSONRPC/0.3"
    assert hybrid["protocolVersion"] == "0.3.0"
    assert hybrid["securitySchemes"]["bearer"]["type"] == "http"
    assert hybrid["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "bearer"


def test_without_a_0_3_interface_there_is_no_0_3_card() -> None:
    assert cards.encode(MINIMAL, "hybrid") == cards.encode(MINIMAL, "1.0")
    with pytest.raises(VersionNotSupported, match=r"no A2A 0\.3 interface"):
        cards.encode(MINIMAL, "0.3")


@pytest.mark.parametrize(
    ("stated", "query", "form"),
    [
        (None, None, "hybrid"),
        (None, "", "hybrid"),
        (Version.V1_0, None, "1.0"),
        (Version.V0_3, None, "0.3"),
        (Version.V1_0, "hybrid", "hybrid"),
        (None, "0.3", "0.3"),
        (Version.V0_3, "1.0", "1.0"),
    ],
)
def test_the_form_is_chosen_by_name_then_version(
    stated: Version | None, query: str | None, form: str
) -> None:
    assert cards.form_for(stated, query) == form


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InvalidParams, match=r"^format: unknown value .* one of 1\.0"):
        cards.form_for(None, "2.0")


def test_the_etag_follows_the_bytes() -> None:
    tag = cards.etag(b"a")
    assert tag.startswith('"')
    assert tag.endswith('"')
    assert tag == cards.etag(b"a") != cards.etag(b"b")


def test_dialects_write_their_own_card() -> None:
    assert V1.card(CARD) == cards.encode(CARD, "1.0")
    assert V03.card(CARD) == V03_REST.card(CARD) == cards.encode(CARD, "0.3")


def shaped(shape: cards.Shape, form: cards.Form = "0.3") -> Any:
    return json.loads(cards.encode(CARD, form, shape))


def test_a_shape_may_repeat_the_interface_and_deny_the_history() -> None:
    plain, card = shaped(cards.STANDARD), shaped(CARD_SHAPES["openclaw-inbound"])
    first = {"url": card["url"], "transport": card["preferredTransport"]}
    assert card["additionalInterfaces"] == [first, *plain["additionalInterfaces"]]
    assert "stateTransitionHistory" not in plain["capabilities"]
    assert card["capabilities"]["stateTransitionHistory"] is False


@pytest.mark.parametrize("form", ["0.3", "hybrid"])
def test_a_shape_may_name_the_schemes_as_old_cards_do(form: cards.Form) -> None:
    card = shaped(CARD_SHAPES["openclaw-design"], form)
    assert card["authentication"] == {"schemes": [*card["securitySchemes"]]}
    assert card["capabilities"]["stateTransitionHistory"] is True
    assert "authentication" not in shaped(cards.STANDARD, form)


def test_a_shape_has_its_own_protocol_version() -> None:
    assert shaped(cards.Shape(v03_protocol_version="0.3.9"))["protocolVersion"] == "0.3.9"
    assert "protocolVersion" not in shaped(cards.Shape(v03_protocol_version="0.3.9"), "1.0")
