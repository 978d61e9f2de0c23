"""The Python client of the hub against a real gateway: results, errors and credentials."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.hub.registry_world import HubWorld, hub_world
from tests.sockets.peer import serving

from trunkline.api.api import Api, Call, Route
from trunkline.hub.agent_changes import NewAgent
from trunkline.hub.agents_api import AgentPatch
from trunkline.hub.client import HubClient, HubRefused, SyncHub, connect_hub, connect_hub_sync
from trunkline.hub.client_http import HubHttp, path_of
from trunkline.model.errors import Unavailable
from trunkline.model.principal import Principal
from trunkline.remote import BadPeerAnswer, InvalidTarget, PeerUnreachable
from trunkline.server.asgi import serve_with
from trunkline.version import VERSION

T = TypeVar("T")


@asynccontextmanager
async def served() -> AsyncIterator[tuple[HubWorld, str]]:
    async with hub_world() as world, serving(world.gateway.application.serve) as server:
        yield world, f"http://127.0.0.1:{server.port}"


@asynccontextmanager
async def hub(token: str = "operator") -> AsyncIterator[HubClient]:
    async with served() as (_, url), connect_hub(url, token=token) as client:
        yield client


def new(slug: str, **values: Any) -> NewAgent:
    return NewAgent(owner="acme", slug=slug, backend={"kind": "echo"}, **values)


async def test_an_agent_is_created_changed_found_and_deleted() -> None:
    async with hub() as client:
        made = await client.create_agent(new("rust", name="Rust expert"))
        assert (made.handle, made.name, made.status) == ("acme/rust", "Rust expert", "draft")
        changed = await client.change_agent(
            made.id, AgentPatch(status="published", version=made.version)
        )
        # What a change leaves out keeps its value.
        assert (changed.status, changed.name) == ("published", "Rust expert")
        assert await client.get_agent(made.id) == changed
        assert (await client.get_agent_by_handle("acme", "rust")).id == made.id
        await client.delete_agent(made.id, version=changed.version)
        with pytest.raises(HubRefused) as caught:
            await client.get_agent_by_handle("acme", "unknown")
        assert (caught.value.status, caught.value.reason) == (404, "ROUTE_NOT_FOUND")


async def test_a_list_is_read_page_by_page() -> None:
    async with hub() as client:
        for number in range(5):
            await client.create_agent(new(f"a{number}", status="published"))
        found: list[str] = []
        token, pages = "", 0
        while not pages or token:
            page = await client.list_agents(owner="acme", page_size=2, page_token=token)
            found += [agent.slug for agent in page.items]
            token, pages = page.next_page_token, pages + 1
        assert (found, pages) == (["a0", "a1", "a2", "a3", "a4"], 3)
        assert (await client.list_agents(mine=True, q="a3")).items[0].slug == "a3"


async def test_an_error_has_its_status_its_reason_and_the_fields() -> None:
    async with hub() as client:
        with pytest.raises(HubRefused) as caught:
            await client.create_agent(new("No Slug"))
        error = caught.value
        assert (error.status, error.reason) == (400, "INVALID_PARAMS")
        assert [field.field for field in error.fields] == ["slug"]
        assert "slug" in error.message


@pytest.mark.parametrize(("token", "status"), [("", 401), ("forged", 401), ("carol", 403)])
async def test_a_caller_without_rights_is_refused(token: str, status: int) -> None:
    async with hub(token) as client:
        with pytest.raises(HubRefused) as caught:
            await client.create_agent(new("rust"))
        assert caught.value.status == status
        assert caught.value.retry_after_s is None


async def test_answers_that_are_not_json_are_text() -> None:
    async with hub() as client:
        assert (await client.get_reference()).startswith("<!doctype html>")
        assert (await client.get_openapi())["openapi"] == "3.1.0"
        assert (await client.get_index()).version == VERSION


async def test_names_go_into_one_segment_of_the_path() -> None:
    async with hub() as client:
        for id in ("../agents", "a/b", "a?b=c", "a#b", "é", " ", "%2F", "x" * 300):
            with pytest.raises(HubRefused) as caught:
                await client.get_agent(id)
            assert caught.value.status == 404
    assert path_of("/a/{id}/{x}", id="..%/?#", x="é") == "/a/..%25%2F%3F%23/%C3%A9"


async def seen(call: Call) -> dict[str, str]:
    return {
        name: call.request.headers.get(name, "")
        for name in ("authorization", "cookie", "content-type")
    }


async def busy(_: Call) -> None:
    raise Unavailable("Draining", retry_after_s=7)


async def wrong(_: Call) -> list[str]:
    return ["no index"]


async def oauth(_: Call) -> Response:
    told = {"error": "invalid_client", "error_description": "The client is not known here"}
    return JSONResponse(told, 401)


@asynccontextmanager
async def showing(handle: Callable[[Call], Any]) -> AsyncIterator[str]:
    """The URL of a hub whose index is something else."""

    async def anyone(_: Request) -> Principal | None:
        return None

    api = Api(identify=anyone, realm="trunkline")
    api.add(
        Route(
            method="GET", path="", name="get_index", summary="Show", handle=handle,
            result=dict[str, str], is_public=True,
        )
    )  # fmt: skip
    async with serving(partial(serve_with, api)) as server:
        yield f"http://127.0.0.1:{server.port}"


async def headers_of(client: HubClient) -> dict[str, str]:
    async with client:
        http: HubHttp = client._http
        return await http.value(dict[str, str], "GET", "")


async def test_a_credential_is_a_token_or_a_cookie() -> None:
    async with showing(seen) as url:
        found = await headers_of(connect_hub(url, token="tl_key_x"))
        assert (found["cookie"], found["authorization"]) == ("", "Bearer tl_key_x")
        found = await headers_of(connect_hub(f"{url}/", cookie="tl_session=tl_sess_x"))
        assert (found["cookie"], found["authorization"]) == ("tl_session=tl_sess_x", "")


async def test_a_gateway_that_is_busy_says_when_to_come_back() -> None:
    async with showing(busy) as url, connect_hub(url) as client:
        with pytest.raises(HubRefused) as caught:
            await client.get_index()
        assert (caught.value.status, caught.value.retry_after_s) == (503, 7.0)


async def test_a_refusal_of_oauth_has_its_reason() -> None:
    async with showing(oauth) as url, connect_hub(url) as client:
        with pytest.raises(HubRefused, match="The client is not known here") as caught:
            await client.get_index()
        assert (caught.value.status, caught.value.reason) == (401, "invalid_client")


async def test_an_answer_of_another_type_is_an_error_of_the_peer() -> None:
    async with showing(wrong) as url, connect_hub(url) as client:
        with pytest.raises(BadPeerAnswer, match="something else"):
            await client.get_index()


async def test_a_gateway_that_is_not_there_is_unreachable() -> None:
    async with connect_hub("http://127.0.0.1:9", token="secret-token") as client:
        with pytest.raises(PeerUnreachable) as caught:
            await client.get_index()
        assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("ftp://gateway.example", ""),
        ("https://user:password@gateway.example", ""),
        ("https://gateway.example?x=1", ""),
        ("https://gateway.example", "two\r\nlines"),
    ],
)
def test_a_wrong_address_or_token_is_refused_at_once(url: str, token: str) -> None:
    with pytest.raises(InvalidTarget):
        connect_hub(url, token=token)


def create_and_list(url: str) -> list[str]:
    with connect_hub_sync(url, token="operator") as client:
        client.create_agent(new("sync", status="published"))
        client.create_agent(new("other", status="published"))
        with pytest.raises(HubRefused, match="slug"):
            client.create_agent(new("No Slug"))
        found = client.list_agents(owner="acme")
    with pytest.raises(PeerUnreachable):
        client.get_index()
    return [agent.slug for agent in found.items]


async def test_a_program_without_asyncio_makes_the_same_calls() -> None:
    async with served() as (_, url):
        assert await asyncio.to_thread(create_and_list, url) == ["other", "sync"]


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert calls(HubClient) == calls(SyncHub)
