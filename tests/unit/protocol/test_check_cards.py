"""Cards of both versions: each rule broken once, and good cards."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from tests.unit.protocol.check_examples import at
from tests.unit.protocol.strategies import few, json_values

from trunkline.protocol.card_signing import base64url
from trunkline.protocol.checks import card_report, check_card

PROTECTED = base64url(json.dumps({"alg": "ES256", "kid": "k", "typ": "JOSE"}).encode())
CARD: dict[str, Any] = {
    "name": "Agent",
    "description": "An agent",
    "supportedInterfaces": [
        {"url": "https://x.test/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "x.test:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {
            "url": "http://127.0.0.1:8080",
            "protocolBinding": "https://x.test/bindings/own",
            "protocolVersion": "0.3",
            "tenant": "t",
        },
    ],
    "provider": {"organization": "ACME", "url": "https://acme.test"},
    "version": "1",
    "documentationUrl": "https://x.test/docs",
    "capabilities": {
        "streaming": True,
        "extendedAgentCard": False,
        "extensions": [{"uri": "https://x.test/ext", "required": True}],
    },
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "oauth": {
            "oauth2SecurityScheme": {
                "flows": {
                    "clientCredentials": {"tokenUrl": "https://x.test/token", "scopes": {"a": "b"}}
                }
            }
        },
        "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://x.test/oidc"}},
        "mtls": {"mtlsSecurityScheme": {}},
    },
    "securityRequirements": [
        {"schemes": {"key": {"list": []}}},
        {"schemes": {"oauth": {"list": ["a"]}}},
    ],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "Skill", "description": "", "tags": ["a"]}],
    "signatures": [{"protected": PROTECTED, "signature": "c2ln"}],
    "iconUrl": "https://x.test/icon.png",
}
CARD_03: dict[str, Any] = {
    "protocolVersion": "0.3.0",
    "name": "Agent",
    "description": "An agent",
    "url": "https://x.test/rpc",
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [{"url": "https://x.test/rest", "transport": "HTTP+JSON"}],
    "version": "1",
    "capabilities": {"streaming": True, "stateTransitionHistory": False},
    "securitySchemes": {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "mtls": {"type": "mutualTLS"},
    },
    "security": [{"key": []}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [
        {"id": "s", "name": "Skill", "description": "x", "tags": [], "security": [{"key": []}]}
    ],
    "supportsAuthenticatedExtendedCard": False,
}


def test_good_cards() -> None:
    assert check_card(CARD, "1.0") == []
    assert check_card(CARD_03, "0.3") == []
    assert card_report(CARD) == card_report(CARD_03) == []
    hybrid = {
        **CARD_03,
        **CARD,
        "skills": [CARD["skills"][0] | {"security": []}],
        "securitySchemes": {
            "key": CARD["securitySchemes"]["key"] | CARD_03["securitySchemes"]["key"],
            "oauth": CARD["securitySchemes"]["oauth"],
        },
        "capabilities": CARD["capabilities"] | {"stateTransitionHistory": True},
    }
    assert card_report(hybrid) == check_card(hybrid, "0.3") == []


V1 = "A2A 1.0 AgentCard"
SCHEMES = "A2A 1.0 SecurityScheme"
SIGNED = "A2A 1.0 §8.4"
# The place, the value there, and what is found: severity, rule, pointer.
BAD: list[tuple[str, Any, str, str, str]] = [
    ("", [], "error", V1, ""),
    *[
        (name, ..., "error", V1, "")
        for name in (
            "name",
            "description",
            "supportedInterfaces",
            "version",
            "capabilities",
            "defaultInputModes",
            "defaultOutputModes",
            "skills",
        )
    ],
    ("name", "", "error", V1, "/name"),
    ("url", "https://x.test", "none", V1, "/url"),
    ("preferredTransport", "JSONRPC", "warning", V1, "/preferredTransport"),
    ("supportedInterfaces", [], "error", V1, "/supportedInterfaces"),
    ("supportedInterfaces/0/url", "/rpc", "error", V1, "/supportedInterfaces/0/url"),
    (
        "supportedInterfaces/0/url",
        "http://x.test",
        "warning",
        "A2A 1.0 TLS",
        "/supportedInterfaces/0/url",
    ),
    ("supportedInterfaces/0/url", ..., "error", V1, "/supportedInterfaces/0"),
    (
        "supportedInterfaces/0/protocolBinding",
        "SOAP",
        "warning",
        V1,
        "/supportedInterfaces/0/protocolBinding",
    ),
    (
        "supportedInterfaces/0/protocolBinding",
        "",
        "error",
        V1,
        "/supportedInterfaces/0/protocolBinding",
    ),
    ("supportedInterfaces/0/protocolVersion", ..., "error", V1, "/supportedInterfaces/0"),
    (
        "supportedInterfaces/0/protocolVersion",
        "one",
        "error",
        V1,
        "/supportedInterfaces/0/protocolVersion",
    ),
    (
        "supportedInterfaces/0/protocolVersion",
        "1.0.1",
        "warning",
        V1,
        "/supportedInterfaces/0/protocolVersion",
    ),
    (
        "supportedInterfaces/0/transport",
        "JSONRPC",
        "warning",
        V1,
        "/supportedInterfaces/0/transport",
    ),
    ("provider", {"organization": "x"}, "error", V1, "/provider"),
    ("capabilities/streaming", "yes", "error", V1, "/capabilities/streaming"),
    (
        "capabilities/stateTransitionHistory",
        True,
        "warning",
        V1,
        "/capabilities/stateTransitionHistory",
    ),
    ("capabilities/extensions/0/uri", "x", "warning", V1, "/capabilities/extensions/0/uri"),
    ("skills/0/id", ..., "error", V1, "/skills/0"),
    ("skills/0/tags", ..., "error", V1, "/skills/0"),
    ("skills/0/tags", "a", "error", V1, "/skills/0/tags"),
    ("skills/0/inputModes", ["text"], "warning", V1, "/skills/0/inputModes/0"),
    ("skills", [CARD["skills"][0]] * 2, "warning", V1, "/skills/1/id"),
    ("defaultInputModes", ["text"], "warning", V1, "/defaultInputModes/0"),
    ("iconUrl", "icon.png", "error", V1, "/iconUrl"),
    ("securitySchemes", [], "error", SCHEMES, "/securitySchemes"),
    ("securitySchemes/key", {"type": "apiKey"}, "error", SCHEMES, "/securitySchemes/key"),
    ("securitySchemes/key", {}, "error", SCHEMES, "/securitySchemes/key"),
    (
        "securitySchemes/key/apiKeySecurityScheme/location",
        "body",
        "error",
        SCHEMES,
        "/securitySchemes/key/apiKeySecurityScheme/location",
    ),
    (
        "securitySchemes/oauth/oauth2SecurityScheme/flows",
        {},
        "error",
        SCHEMES,
        "/securitySchemes/oauth/oauth2SecurityScheme/flows",
    ),
    (
        "securityRequirements",
        [{"schemes": {"none": {"list": []}}}],
        "error",
        "A2A SecurityRequirement",
        "/securityRequirements/0/schemes/none",
    ),
    (
        "securityRequirements",
        [{"key": []}],
        "error",
        "A2A 1.0 SecurityRequirement",
        "/securityRequirements/0",
    ),
    ("signatures/0/signature", "!", "error", SIGNED, "/signatures/0/signature"),
    ("signatures/0/signature", ..., "error", SIGNED, "/signatures/0"),
    ("signatures/0/protected", "!", "error", SIGNED, "/signatures/0/protected"),
    ("signatures/0/protected", base64url(b"[]"), "error", SIGNED, "/signatures/0/protected"),
    (
        "signatures/0/protected",
        base64url(b'{"alg":"ES256"}'),
        "error",
        SIGNED,
        "/signatures/0/protected",
    ),
    (
        "signatures/0/protected",
        base64url(b'{"alg":"none","kid":"k","typ":"JOSE"}'),
        "error",
        SIGNED,
        "/signatures/0/protected",
    ),
    (
        "signatures/0/protected",
        base64url(b'{"alg":"ES256","kid":"k"}'),
        "note",
        SIGNED,
        "/signatures/0/protected",
    ),
    ("signatures/0", 7, "error", SIGNED, "/signatures/0"),
    ("nonsense", 1, "note", V1, "/nonsense"),
]
V03 = "A2A 0.3 §5.5"
BAD_03: list[tuple[str, Any, str, str, str]] = [
    ("protocolVersion", ..., "error", V03, ""),
    ("protocolVersion", "1.0", "warning", V03, "/protocolVersion"),
    ("url", ..., "error", V03, ""),
    ("url", "x", "error", V03, "/url"),
    ("url", "http://x.test", "warning", "A2A 1.0 TLS", "/url"),
    ("preferredTransport", "SOAP", "warning", V03, "/preferredTransport"),
    ("additionalInterfaces/0/transport", ..., "error", V03, "/additionalInterfaces/0"),
    (
        "additionalInterfaces/0/protocolBinding",
        "GRPC",
        "warning",
        V03,
        "/additionalInterfaces/0/protocolBinding",
    ),
    ("securityRequirements", [], "warning", V03, "/securityRequirements"),
    ("security", [{"none": []}], "error", "A2A SecurityRequirement", "/security/0/none"),
    ("security", [7], "error", V03, "/security/0"),
    ("securitySchemes/key", 7, "error", "A2A 0.3 SecurityScheme", "/securitySchemes/key"),
    ("securitySchemes/key/type", ..., "error", "A2A 0.3 SecurityScheme", "/securitySchemes/key"),
    ("securitySchemes/key/in", ..., "error", "A2A 0.3 SecurityScheme", "/securitySchemes/key"),
    (
        "securitySchemes/key",
        CARD["securitySchemes"]["key"],
        "error",
        "A2A 0.3 SecurityScheme",
        "/securitySchemes/key",
    ),
    ("supportsAuthenticatedExtendedCard", "no", "error", V03, "/supportsAuthenticatedExtendedCard"),
    (
        "capabilities/stateTransitionHistory",
        1,
        "error",
        V03,
        "/capabilities/stateTransitionHistory",
    ),
]


def changed(card: dict[str, Any], path: str, value: Any) -> Any:
    tree = {"": copy.deepcopy(card)}
    holder, key = at(tree, f"/{path}" if path else "")
    if value is ...:
        del holder[key]
    else:
        holder[key] = value
    return tree[""]


@pytest.mark.parametrize(("path", "value", "severity", "rule", "pointer"), BAD)
def test_bad_cards(path: str, value: Any, severity: str, rule: str, pointer: str) -> None:
    found = check_card(changed(CARD, path, value), "1.0")
    if severity == "none":
        # With `url` it is a card of both versions.
        assert found == []
        return
    assert (severity, rule, pointer) in [(f.severity, f.rule, f.pointer) for f in found], found


@pytest.mark.parametrize(("path", "value", "severity", "rule", "pointer"), BAD_03)
def test_bad_cards_of_0_3(path: str, value: Any, severity: str, rule: str, pointer: str) -> None:
    found = check_card(changed(CARD_03, path, value), "0.3")
    assert (severity, rule, pointer) in [(f.severity, f.rule, f.pointer) for f in found], found


def test_a_card_of_both_versions_that_lacks_a_member_of_0_3() -> None:
    hybrid = {**CARD_03, **CARD}
    del hybrid["protocolVersion"]
    found = check_card(hybrid, "0.3")
    assert [each.text for each in found] == ["the card has no protocolVersion, which is required"]


def test_the_report_takes_bytes_too() -> None:
    assert card_report(json.dumps(CARD).encode()) == card_report(json.dumps(CARD_03)) == []
    [finding] = card_report(b"<html>")
    assert (finding.rule, finding.severity) == ("JSON", "error")


@few
@given(json_values)
def test_no_card_raises(value: Any) -> None:
    card_report(value)
    for path in (
        "skills",
        "securitySchemes/key",
        "signatures/0",
        "capabilities",
        "securityRequirements/0",
    ):
        check_card(changed(CARD, path, value), "1.0")
    for path in ("security", "securitySchemes/key", "additionalInterfaces", "skills/0"):
        check_card(changed(CARD_03, path, value), "0.3")
