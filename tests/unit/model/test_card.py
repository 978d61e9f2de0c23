import msgspec

from trunkline.model.card import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HttpAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

CARD = AgentCard(
    name="Echo",
    description="Repeats.",
    supported_interfaces=(
        AgentInterface(url="http://h/a", protocol_binding="JSONRPC", protocol_version="1.0"),
    ),
    version="1.0.0",
    capabilities=AgentCapabilities(streaming=True, push_notifications=False),
    security_schemes={
        "bearer": SecurityScheme(http_auth_security_scheme=HttpAuthSecurityScheme(scheme="bearer"))
    },
    security_requirements=(SecurityRequirement(schemes={"bearer": StringList()}),),
    default_input_modes=("text/plain",),
    default_output_modes=("text/plain",),
    skills=(AgentSkill(id="echo", name="Echo", description="Repeats.", tags=("demo",)),),
)


def test_a_card_has_the_json_of_the_specification() -> None:
    assert msgspec.json.decode(msgspec.json.encode(CARD)) == {
        "name": "Echo",
        "description": "Repeats.",
        "supportedInterfaces": [
            {"url": "http://h/a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "version": "1.0.0",
        "capabilities": {"streaming": True, "pushNotifications": False},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "Repeats.", "tags": ["demo"]}],
    }


def test_a_card_reads_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(CARD), type=AgentCard) == CARD
