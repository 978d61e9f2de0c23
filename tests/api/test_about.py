"""The index, the OpenAPI document and the reference page, as a gateway serves them."""

import json
import re

import pytest
from tests.bindings.asgi import Answer, Http
from tests.hub.registry_world import HubWorld, hub_world

from trunkline.api.page import POLICY
from trunkline.version import VERSION


async def get(world: HubWorld, path: str, **headers: str) -> Answer:
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    return await world.http.send(Http(method="GET", path=path, headers=own))


async def test_the_index_leads_to_what_is_served() -> None:
    async with hub_world() as world:
        index = (await get(world, "/api/v1")).json()
        assert (index["name"], index["version"]) == ("trunkline", VERSION)
        assert {*index["links"]} == {"openapi", "reference", "aiCatalog"}
        for path in index["links"].values():
            assert (await get(world, path)).status == 200


async def test_the_document_has_every_route_that_is_served() -> None:
    async with hub_world() as world:
        answer = await get(world, "/api/v1/openapi.json")
        assert answer.headers["content-type"] == "application/json"
        document = json.loads(answer.body)
        assert world.gateway.hub is not None
        served = {(f"/api/v1{route.path}", route.method) for route in world.gateway.hub.api.routes}
        documented = {
            (path, method.upper()) for path, place in document["paths"].items() for method in place
        }
        assert documented == served
        names = [
            operation["operationId"]
            for place in document["paths"].values()
            for operation in place.values()
        ]
        assert len(names) == len({*names})
        # Every type that is named exists, and every type is named.
        text = answer.body.decode()
        named = {*re.findall(r"#/components/schemas/([\w.-]+)", text)}
        assert named == {*document["components"]["schemas"]}


@pytest.mark.parametrize(
    ("style", "cookie", "prefix"),
    [("trunkline", "tl_session", "tl_sess_"), ("clawborrator", "cw_session", "cw_sess_")],
)
async def test_credentials_have_the_names_of_the_style(
    style: str, cookie: str, prefix: str
) -> None:
    async with hub_world(hub={"style": style}) as world:
        document = (await get(world, "/api/v1/openapi.json")).json()
        schemes = document["components"]["securitySchemes"]
        assert schemes["cookie"]["name"] == cookie
        assert schemes["bearer"]["bearerFormat"].startswith(prefix)


async def test_the_page_may_run_nothing() -> None:
    async with hub_world() as world:
        answer = await get(world, "/api/v1/reference")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"/api/v1/agents/{id}" in answer.body


@pytest.mark.parametrize("path", ["/api/v1/openapi.json", "/api/v1/reference"])
async def test_a_page_that_has_not_changed_is_not_sent_again(path: str) -> None:
    async with hub_world() as world:
        tag = (await get(world, path)).headers["etag"]
        assert (await get(world, path, If_None_Match=f'"x", W/{tag}')).status == 304
        assert (await get(world, path, If_None_Match='"x"')).status == 200


async def test_a_wrong_credential_is_refused_on_public_pages_as_well() -> None:
    async with hub_world() as world:
        answer = await get(world, "/api/v1", Authorization="Bearer forged")
        assert answer.status == 401
