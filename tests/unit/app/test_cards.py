from typing import Any

import pytest
from tests.unit.settings.documents import KEY, agent, made

from trunkline.app.cards import (
    Addresses,
    Place,
    addresses_of,
    agent_card,
    extended_card,
    input_modes,
)
from trunkline.backends.python import Agent
from trunkline.model.card import AgentCard, AgentExtension, AgentSkill
from trunkline.settings import Settings

OWN = "/api/a2a/v1/agents/acme/echo"
BY_HANDLE = Addresses(
    card_paths=(f"{OWN}/agent-card.json", f"{OWN}/.well-known/agent-card.json"),
    jsonrpc=OWN,
    rest=OWN,
)
ROOT = Addresses(
    card_paths=("/.well-known/agent-card.json",), jsonrpc="/a2a/jsonrpc", rest="/a2a/rest"
)


def one_agent(keys: dict[str, Any] | None = None, **sections: Any) -> Settings:
    return made(agents={"acme/echo": agent(**keys or {})}, **sections)


def addresses(is_default: bool = False, /, **keys: Any) -> list[Addresses]:
    settings = one_agent(keys).agents["acme/echo"]
    return addresses_of("acme/echo", settings, is_default=is_default)


def card(
    keys: dict[str, Any] | None = None,
    *,
    code: Agent | None = None,
    at: Addresses = BY_HANDLE,
    **sections: Any,
) -> AgentCard:
    settings = one_agent(keys, **sections)
    return agent_card(
        "acme/echo",
        settings.agents["acme/echo"],
        code=code,
        places=[Place("https://gateway.example/base", at)],
        access=settings,
    )


def python_agent(**about: Any) -> Agent:
    def rust(turn: object) -> str:
        """Knows Rust."""
        return "yes"

    return Agent(rust, **about)


def test_an_agent_is_served_under_its_handle() -> None:
    assert addresses() == [BY_HANDLE]


def test_the_default_agent_is_at_the_root_too_and_that_comes_first() -> None:
    assert addresses(True) == [ROOT, BY_HANDLE]


def test_the_default_agent_may_move() -> None:
    found = addresses(True, agent_card_path="/card.json", jsonrpc_path="/rpc", rest_path="/rest")
    # Clients look for a card below the address that they were given.
    cards = ("/card.json", "/rpc/.well-known/agent-card.json")
    moved = Addresses(card_paths=cards, jsonrpc="/rpc", rest="/rest")
    assert found == [moved, BY_HANDLE]


def test_the_default_agent_may_move_in_part() -> None:
    preferred, _ = addresses(True, jsonrpc_path="/rpc")
    cards = (*ROOT.card_paths, "/rpc/.well-known/agent-card.json")
    assert preferred == Addresses(card_paths=cards, jsonrpc="/rpc", rest="/a2a/rest")


@pytest.mark.parametrize("is_default", [True, False])
def test_exact_addresses_are_two(is_default: bool) -> None:
    keys = {"agent_card_path": "/card.json", "jsonrpc_path": "/rpc/", "addresses": "exact"}
    found = Addresses(card_paths=("/card.json",), jsonrpc="/rpc/", rest=None)
    assert addresses(is_default, **keys) == [found]


def test_exact_addresses_without_paths_are_the_standard_ones() -> None:
    assert addresses(True, addresses="exact") == [
        Addresses(card_paths=ROOT.card_paths, jsonrpc=ROOT.jsonrpc, rest=None)
    ]
    assert addresses(addresses="exact") == [
        Addresses(card_paths=BY_HANDLE.card_paths[:1], jsonrpc=OWN, rest=None)
    ]


@pytest.mark.parametrize(
    ("dialect", "default_version", "versions"),
    [("auto", "1.0", ["1.0", "0.3"]), ("v1.0", "1.0", ["1.0"]), ("v0.3", "0.3", ["0.3"])],
)
def test_a_card_names_the_versions_that_are_spoken(
    dialect: str, default_version: str, versions: list[str]
) -> None:
    found = card({"dialect": dialect, "default_version": default_version})
    spoken = [interface.protocol_version for interface in found.supported_interfaces]
    assert list(dict.fromkeys(spoken)) == versions


def test_a_card_names_no_binding_that_is_not_served() -> None:
    at = Addresses(card_paths=("/card.json",), jsonrpc="/rpc", rest=None)
    bindings = {i.protocol_binding for i in card(at=at).supported_interfaces}
    assert bindings == {"JSONRPC"}


def test_another_agent_with_a_path_of_its_own_keeps_the_rest_under_its_handle() -> None:
    preferred, by_handle = addresses(rest_path="/rest")
    assert preferred == Addresses(card_paths=BY_HANDLE.card_paths[:1], jsonrpc=OWN, rest="/rest")
    assert by_handle == BY_HANDLE


@pytest.mark.parametrize("key", ["jsonrpc_path", "rest_path"])
def test_a_slash_at_the_end_of_a_path_makes_no_difference(key: str) -> None:
    assert addresses(**{key: "/x/"}) == addresses(**{key: "/x"})


def test_a_card_names_what_it_is() -> None:
    found = card(
        {
            "description": "Repeats.",
            "version": "2.1",
            "documentation_url": "https://docs.example",
            "icon_url": "https://docs.example/icon.png",
            "provider": {"organization": "Acme", "url": "https://acme.example"},
        }
    )
    assert (found.name, found.description, found.version) == ("Echo", "Repeats.", "2.1")
    assert (found.documentation_url, found.icon_url) == (
        "https://docs.example",
        "https://docs.example/icon.png",
    )
    assert found.provider is not None
    assert found.provider.organization == "Acme"
    assert found.default_input_modes == ("text/plain", "application/json")
    assert found.default_output_modes == ("text/plain", "application/json")
    assert found.capabilities.streaming is True
    assert found.capabilities.push_notifications is False
    assert found.capabilities.extended_agent_card is False


def test_a_card_leaves_out_what_nobody_said() -> None:
    found = card()
    assert (found.provider, found.documentation_url, found.icon_url) == (None, None, None)
    assert found.description == "Echo"


def test_interfaces_are_absolute_and_prefer_the_newer_version() -> None:
    base = "https://gateway.example/base"
    found = [
        (item.url, item.protocol_binding, item.protocol_version)
        for item in card(at=ROOT).supported_interfaces
    ]
    assert found == [
        (f"{base}/a2a/jsonrpc", "JSONRPC", "1.0"),
        (f"{base}/a2a/rest", "HTTP+JSON", "1.0"),
        (f"{base}/a2a/jsonrpc", "JSONRPC", "0.3"),
        (f"{base}/a2a/rest", "HTTP+JSON", "0.3"),
    ]


def test_tenants_have_interfaces_of_their_own_and_0_3_has_none() -> None:
    found = [
        (item.tenant, item.protocol_binding, item.protocol_version)
        for item in card({"tenants": ["a", "b"]}).supported_interfaces
    ]
    assert found == [
        ("a", "JSONRPC", "1.0"),
        ("a", "HTTP+JSON", "1.0"),
        ("b", "JSONRPC", "1.0"),
        ("b", "HTTP+JSON", "1.0"),
    ]


def test_without_keys_there_is_nothing_to_sign_in_with() -> None:
    found = card()
    assert (found.security_schemes, found.security_requirements) == ({}, ())


def test_with_keys_but_without_need_of_one_the_schemes_are_offered() -> None:
    found = card(auth={"keys": {"alice": {"key": KEY}}, "anonymous": "loopback"})
    assert set(found.security_schemes) == {"bearer", "apiKey"}
    assert found.security_requirements == ()


def test_with_keys_alone_either_scheme_is_required() -> None:
    found = card(auth={"keys": {"alice": {"key": KEY}}})
    bearer = found.security_schemes["bearer"].http_auth_security_scheme
    api_key = found.security_schemes["apiKey"].api_key_security_scheme
    assert bearer is not None
    assert bearer.scheme == "bearer"
    assert api_key is not None
    assert (api_key.location, api_key.name) == ("header", "X-API-Key")
    # Any one of them is enough.
    assert [[*item.schemes] for item in found.security_requirements] == [["bearer"], ["apiKey"]]


def test_skills_fill_their_own_gaps() -> None:
    found = card(
        {
            "skills": [
                {"id": "ask"},
                {
                    "id": "say",
                    "name": "Say",
                    "description": "Says it.",
                    "tags": ["talk"],
                    "examples": ["hi"],
                    "input_modes": ["text/html"],
                    "output_modes": ["text/markdown"],
                },
            ]
        }
    )
    assert found.skills == (
        AgentSkill(id="ask", name="ask", description="ask", tags=("ask",)),
        AgentSkill(
            id="say",
            name="Say",
            description="Says it.",
            tags=("talk",),
            examples=("hi",),
            input_modes=("text/html",),
            output_modes=("text/markdown",),
        ),
    )


def test_an_agent_without_skills_is_one() -> None:
    found = card({"description": "Repeats."})
    assert found.skills == (
        AgentSkill(id="echo", name="Echo", description="Repeats.", tags=("echo",)),
    )


def test_a_python_agent_fills_the_gaps() -> None:
    code = python_agent(
        name="Rust expert",
        version="3.0",
        skills=["ask"],
        input_modes=["text/markdown"],
        output_modes=["text/html"],
        extensions=["urn:x"],
        documentation_url="https://rust.example",
    )
    found = card({"name": "", "backend": {"kind": "python", "target": "rust:rust"}}, code=code)
    assert (found.name, found.description, found.version) == (
        "Rust expert",
        "Knows Rust.",
        "3.0",
    )
    assert found.skills == code.skills
    assert found.default_input_modes == ("text/markdown",)
    assert found.default_output_modes == ("text/html",)
    assert found.capabilities.extensions == (AgentExtension(uri="urn:x"),)
    assert found.documentation_url == "https://rust.example"


def test_settings_win_over_a_python_agent() -> None:
    code = python_agent(
        name="Rust expert",
        version="3.0",
        skills=["ask"],
        input_modes=["text/markdown"],
        output_modes=["text/html"],
        extensions=["urn:x"],
        documentation_url="https://rust.example",
    )
    found = card(
        {
            "name": "Mine",
            "description": "My own.",
            "version": "4.0",
            "skills": [{"id": "mine"}],
            "input_modes": ["image/png"],
            "output_modes": ["image/gif"],
            "extensions": [{"uri": "urn:y", "description": "d", "required": True}],
            "documentation_url": "https://mine.example",
            "backend": {"kind": "python", "target": "rust:rust"},
        },
        code=code,
    )
    assert (found.name, found.description, found.version) == ("Mine", "My own.", "4.0")
    assert [skill.id for skill in found.skills] == ["mine"]
    assert found.default_input_modes == ("image/png",)
    assert found.default_output_modes == ("image/gif",)
    assert found.capabilities.extensions == (
        AgentExtension(uri="urn:y", description="d", required=True),
    )
    assert found.documentation_url == "https://mine.example"


def test_input_modes_are_those_of_the_card() -> None:
    settings = one_agent({"input_modes": ["image/png"]}).agents["acme/echo"]
    assert input_modes(settings, None) == ("image/png",)


def test_without_settings_for_it_there_is_no_extended_card() -> None:
    settings = one_agent().agents["acme/echo"]
    assert extended_card(card(), settings) is None


AUTH = {"keys": {"alice": {"key": KEY}}}


def test_an_extended_card_adds_to_the_public_one() -> None:
    keys = {
        "skills": [{"id": "ask"}],
        "extensions": [{"uri": "urn:x"}],
        "extended_card": {
            "name": "Echo for friends",
            "description": "More.",
            "skills": [{"id": "secret"}],
            "extensions": [{"uri": "urn:y"}],
            "documentation_url": "https://inside.example",
        },
    }
    public = card(keys, auth=AUTH)
    extended = extended_card(public, one_agent(keys, auth=AUTH).agents["acme/echo"])
    assert public.capabilities.extended_agent_card is True
    assert extended is not None
    assert (extended.name, extended.description) == ("Echo for friends", "More.")
    assert [skill.id for skill in extended.skills] == ["ask", "secret"]
    assert [item.uri for item in extended.capabilities.extensions] == ["urn:x", "urn:y"]
    assert extended.documentation_url == "https://inside.example"
    assert extended.supported_interfaces == public.supported_interfaces


def test_an_extended_card_keeps_what_it_does_not_change() -> None:
    keys: dict[str, Any] = {"extended_card": {}, "documentation_url": "https://docs.example"}
    public = card(keys, auth=AUTH)
    assert extended_card(public, one_agent(keys, auth=AUTH).agents["acme/echo"]) == public


def test_a_skill_of_the_extended_card_takes_the_place_of_a_public_one() -> None:
    told = {"id": "b", "description": "All of it"}
    keys = {"skills": [{"id": "a"}, {"id": "b"}, {"id": "c"}], "extended_card": {"skills": [told]}}
    public = card(keys, auth=AUTH)
    extended = extended_card(public, one_agent(keys, auth=AUTH).agents["acme/echo"])
    assert extended is not None
    assert [(s.id, s.description) for s in extended.skills] == [
        ("a", "a"),
        ("b", "All of it"),
        ("c", "c"),
    ]
    assert [s.description for s in public.skills] == ["a", "b", "c"]
