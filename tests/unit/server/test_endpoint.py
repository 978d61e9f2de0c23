import pytest
from tests.unit.server.endpoints import card, endpoint

from trunkline.model.card import AgentCapabilities, AgentExtension
from trunkline.model.errors import ExtensionSupportRequired, InvalidParams
from trunkline.server.endpoint import Endpoint


def with_extensions(*extensions: AgentExtension) -> Endpoint:
    return endpoint(card=card(capabilities=AgentCapabilities(extensions=extensions)))


def test_any_tenant_is_fine_where_none_is_named() -> None:
    for tenant in ("", "acme"):
        endpoint().check_tenant(tenant)


def test_only_tenants_of_the_agent_are_let_in() -> None:
    at = endpoint(tenants=frozenset({"acme"}))
    at.check_tenant("acme")
    for tenant in ("", "other", "ACME"):
        with pytest.raises(InvalidParams) as caught:
            at.check_tenant(tenant)
        assert caught.value.violations[0].field == "tenant"


@pytest.mark.parametrize("listed", [[], ["urn:a"]])
def test_an_agent_without_extensions_activates_none(listed: list[str]) -> None:
    assert endpoint().activate(listed) == ()


def test_extensions_in_use_are_listed_and_declared() -> None:
    at = with_extensions(AgentExtension(uri="urn:a"), AgentExtension(uri="urn:b"))
    assert at.activate([]) == ()
    assert at.activate(["urn:c", "urn:b"]) == ("urn:b",)
    # In the agent's order, each one once.
    assert at.activate(["urn:b", "urn:a", "urn:b"]) == ("urn:a", "urn:b")


def test_a_required_extension_must_be_listed() -> None:
    at = with_extensions(
        AgentExtension(uri="urn:a", required=True),
        AgentExtension(uri="urn:b"),
        AgentExtension(uri="urn:c", required=True),
    )
    assert at.activate(["urn:a", "urn:c"]) == ("urn:a", "urn:c")
    with pytest.raises(ExtensionSupportRequired, match="extension urn:c") as caught:
        at.activate(["urn:a"])
    assert caught.value.metadata == {"extensions": "urn:c"}
