"""Paths: literals before parameters, and names that nothing has."""

import pytest

from trunkline.api.paths import RouteTable, parameters_of

ROWS = [
    ("GET", "", "index"),
    ("GET", "/agents", "list"),
    ("POST", "/agents", "create"),
    ("GET", "/agents/{id}", "get"),
    ("GET", "/agents/by-handle/{owner}/{slug}", "by-handle"),
    ("GET", "/agents/{id}/inbound", "inbound"),
    ("DELETE", "/agents/{id}/grants/{principal}", "revoke"),
]
TABLE = RouteTable("/api/v1", ROWS)


def found(path: str, method: str = "GET") -> tuple[str, dict[str, str]] | None:
    it = TABLE.find(path.encode())
    return None if it is None or method not in it[0] else (it[0][method], dict(it[1]))


@pytest.mark.parametrize(
    ("path", "served"),
    [
        ("/api/v1", ("index", {})),
        ("/api/v1/agents", ("list", {})),
        ("/%61pi/v1/%61gents", ("list", {})),
        ("/api/v1/agents/agt_1", ("get", {"id": "agt_1"})),
        ("/api/v1/agents/by-handle", ("get", {"id": "by-handle"})),
        ("/api/v1/agents/by-handle/a/b", ("by-handle", {"owner": "a", "slug": "b"})),
        ("/api/v1/agents/by-handle/inbound", ("inbound", {"id": "by-handle"})),
        ("/api/v1/agents/inbound/inbound", ("inbound", {"id": "inbound"})),
        ("/api/v1/agents/a%20b", ("get", {"id": "a b"})),
        ("/api/v1/agents/%C3%A9", ("get", {"id": "é"})),
        ("/api/v1/agents/a%2Fb", None),
        ("/api/v1/agents/a%00", None),
        ("/api/v1/agents/a%0Ab", None),
        ("/api/v1/agents/%FF", None),
        ("/api/v1/agents/%", ("get", {"id": "%"})),
        ("/api/v1/agents/", None),
        ("/api/v1/agents//inbound", None),
        ("/api/v1//agents", None),
        ("/api/v1/", None),
        ("/api/v1/agents/by-handle/..%2F..%2Fx/b", None),
        ("/api/v1/agents/by-handle/../b", None),
        ("/api/v1/agents/" + "x" * 256, ("get", {"id": "x" * 256})),
        ("/api/v1/agents/" + "x" * 257, None),
        ("/api%2Fv1/agents", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_path_leads_to_one_route_or_to_none(
    path: str, served: tuple[str, dict[str, str]] | None
) -> None:
    assert found(path) == served


def test_a_route_has_its_own_method() -> None:
    assert found("/api/v1/agents", "POST") == ("create", {})
    assert found("/api/v1/agents", "DELETE") is None


def test_a_path_has_one_route_for_a_method() -> None:
    with pytest.raises(AssertionError, match="two routes for GET /agents"):
        RouteTable("/api/v1", [*ROWS, ("GET", "/agents", "again")])
    with pytest.raises(AssertionError, match="two names"):
        RouteTable("/api/v1", [*ROWS, ("POST", "/agents/{other}", "again")])


def test_a_path_of_many_segments_costs_little() -> None:
    assert found("/api/v1" + "/agents" * 5_000) is None


def test_parameters_are_in_the_order_of_the_path() -> None:
    assert parameters_of("/agents/{owner}/{slug}/x") == ["owner", "slug"]
