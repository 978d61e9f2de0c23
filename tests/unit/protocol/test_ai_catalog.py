"""The document of an AI Catalog, compared with the rules of its specification."""

import json
from typing import Any

import pytest

from trunkline.model.card import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from trunkline.protocol.ai_catalog import catalog, entry


def card(*tags: tuple[str, ...]) -> AgentCard:
    skills = tuple(
        AgentSkill(id=f"s{number}", name="s", description="d", tags=each)
        for number, each in enumerate(tags)
    )
    interface = AgentInterface(url="http://x", protocol_binding="JSONRPC", protocol_version="1.0")
    return AgentCard(
        name="Rust expert",
        description="Answers",
        version="1",
        supported_interfaces=(interface,),
        capabilities=AgentCapabilities(),
        default_input_modes=("text/plain",),
        default_output_modes=("text/plain",),
        skills=skills,
    )


def made(url: str, *tags: tuple[str, ...]) -> Any:
    return json.loads(entry("acme/rust", f"{url}/card.json", card(*tags)))


def test_an_entry_has_an_identifier_a_type_and_one_address() -> None:
    # A name or a description would repeat those of the card, which the specification asks to avoid.
    assert made("https://agents.example.com", ("rust", "code"), ("code",)) == {
        "identifier": "urn:air:agents.example.com:agent:acme:rust",
        "type": "application/a2a-agent-card+json",
        "url": "https://agents.example.com/card.json",
        "tags": ["rust", "code"],
    }


@pytest.mark.parametrize(
    "base",
    ["http://127.0.0.1:8642", "http://[::1]:8642", "http://localhost:8642", "http://10.1.2.3"],
)
def test_a_gateway_without_a_domain_names_agents_by_their_address(base: str) -> None:
    assert made(base)["identifier"] == f"{base}/api/a2a/v1/agents/acme/rust"
    assert "tags" not in made(base)


def test_an_agent_of_many_skills_has_some_tags() -> None:
    many = tuple((f"tag-{number}",) for number in range(1000))
    assert len(made("https://agents.example.com", *many)["tags"]) == 20


def test_the_document_names_its_version_its_host_and_its_entries() -> None:
    entries = [entry(f"acme/{slug}", f"https://a.example/{slug}", card()) for slug in ("x", "y")]
    found = json.loads(catalog("https://a.example", entries))
    assert found["specVersion"] == "1.0"
    assert found["host"] == {"displayName": "a.example", "identifier": "a.example"}
    assert [each["url"] for each in found["entries"]] == [
        "https://a.example/x",
        "https://a.example/y",
    ]
    identifiers = [each["identifier"] for each in found["entries"]]
    assert len({*identifiers}) == 2


def test_a_catalog_may_be_empty() -> None:
    assert json.loads(catalog("http://127.0.0.1:1", [])) == {
        "specVersion": "1.0",
        "host": {"displayName": "127.0.0.1"},
        "entries": [],
    }
