"""Agent cards (protocol section 11)."""

import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.cases import V03, in_memory, over, refused
from tests.bindings.shapes import Json
from tests.bindings.world import BASE_URL, KEYS, World, open_world

from trunkline.settings.agent_card import (
    ExtendedCardSettings,
    ExtensionSettings,
    ProviderSettings,
    SkillSettings,
)

database = in_memory

PATH = "/.well-known/agent-card.json"
# AgentCard of the proto: the required members, and all there are.
REQUIRED = {
    "name",
    "description",
    "supportedInterfaces",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
}
KNOWN = REQUIRED | {
    "provider",
    "documentationUrl",
    "securitySchemes",
    "securityRequirements",
    "signatures",
    "iconUrl",
}


async def fetch(world: World, path: str = PATH, *, query: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await world.http.send(Http(method="GET", path=path, query=query, headers=named))


async def card_10(world: World) -> Json:
    card: Json = (await fetch(world, a2a_version="1.0")).json()
    return card


async def test_a_card_of_1_0_has_what_is_required_and_nothing_else(world: World) -> None:
    card = await card_10(world)
    assert set(card) >= REQUIRED
    assert set(card) <= KNOWN
    assert card["capabilities"] == {
        "streaming": True,
        "pushNotifications": False,
        "extendedAgentCard": False,
    }
    assert all({"id", "name", "description", "tags"} <= set(skill) for skill in card["skills"])
    assert all(skill["tags"] for skill in card["skills"])


async def test_a_card_needs_no_credentials(world: World) -> None:
    assert (await fetch(world)).status == 200


async def test_a_card_declares_every_interface_in_both_versions(world: World) -> None:
    interfaces = (await card_10(world))["supportedInterfaces"]
    assert interfaces == [
        {"url": f"{BASE_URL}/a2a/jsonrpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": f"{BASE_URL}/a2a/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        {"url": f"{BASE_URL}/a2a/jsonrpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": f"{BASE_URL}/a2a/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
    ]


async def test_what_the_card_declares_is_served(world: World) -> None:
    for interface in (await card_10(world))["supportedInterfaces"]:
        binding = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest"}[interface["protocolBinding"]]
        client = world.client(f"{binding}-{interface['protocolVersion']}")
        at = client.address.jsonrpc if binding == "jsonrpc" else client.address.rest
        assert interface["url"] == BASE_URL + at
        assert (await client.run("say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_card_of_0_3_has_what_is_required(world: World) -> None:
    card = (await fetch(world, a2a_version="0.3")).json()
    assert card["protocolVersion"].startswith("0.3")
    assert card["url"] == f"{BASE_URL}/a2a/jsonrpc"
    assert card["preferredTransport"] == "JSONRPC"
    assert card["additionalInterfaces"] == [
        {"url": f"{BASE_URL}/a2a/rest", "transport": "HTTP+JSON"}
    ]
    assert "supportedInterfaces" not in card
    assert {"name", "description", "version", "capabilities", "skills"} <= set(card)


async def test_a_card_for_nobody_in_particular_suits_both_generations(world: World) -> None:
    card = (await fetch(world)).json()
    assert card["supportedInterfaces"]
    assert card["url"]
    assert card["protocolVersion"]
    assert (await fetch(world, query="format=1.0")).json() == await card_10(world)


async def test_security_schemes_are_declared_as_each_version_writes_them(world: World) -> None:
    card = await card_10(world)
    assert card["securitySchemes"] == {
        "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
        "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
    }
    # One of them is enough.
    assert card["securityRequirements"] == [
        {"schemes": {"bearer": {}}},
        {"schemes": {"apiKey": {}}},
    ]
    older = (await fetch(world, a2a_version="0.3")).json()
    assert older["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "bearer"},
        "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    assert older["security"] == [{"bearer": []}, {"apiKey": []}]


async def test_the_declared_schemes_work(world: World) -> None:
    client = world.client("rest-1.0", "")
    request = client.request("ListTasks", {})
    for header in ({"authorization": f"Bearer {KEYS['alice']}"}, {"x-api-key": KEYS["alice"]}):
        request.headers = dict(client.headers) | header
        assert (await client.http.send(request)).status == 200


async def test_a_card_may_be_kept_for_a_while(world: World) -> None:
    answer = await fetch(world)
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["last-modified"] == "Sun, 15 Jun 2025 15:06:40 GMT"
    assert answer.headers["content-type"] == "application/json"
    # A cache must not give one version the card of the other.
    assert answer.headers["vary"] == "A2A-Version"


async def test_a_card_that_is_known_is_not_sent_again(world: World) -> None:
    tag = (await fetch(world)).headers["etag"]
    for known in (tag, f'"other", {tag}', "*", f"W/{tag}"):
        answer = await fetch(world, if_none_match=known)
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["etag"] == tag
    assert (await fetch(world, if_none_match='"other"')).status == 200
    since = await fetch(world, if_modified_since="Sun, 15 Jun 2025 15:06:40 GMT")
    assert since.status == 304
    earlier = await fetch(world, if_modified_since="Sun, 15 Jun 2025 15:06:39 GMT")
    assert earlier.status == 200


async def test_each_form_of_a_card_has_a_tag_of_its_own(world: World) -> None:
    tags = {(await fetch(world, a2a_version=v)).headers["etag"] for v in ("", "1.0", "0.3")}
    assert len(tags) == 3


async def test_a_tag_changes_with_the_card() -> None:
    tags = set()
    for description in ("One", "Another"):
        async with open_world(description=description) as world:
            tags.add((await fetch(world)).headers["etag"])
    assert len(tags) == 2


@pytest.mark.parametrize("since", ["yesterday", "", "Sun, 99 Jun 2025 15:06:40 GMT", "0"])
async def test_a_date_that_is_none_is_ignored(world: World, since: str) -> None:
    assert (await fetch(world, if_modified_since=since)).status == 200


async def test_a_card_is_read_and_never_written(world: World) -> None:
    answer = await world.http.send(Http(method="POST", path=PATH, body=b"{}"))
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    head = await world.http.send(Http(method="HEAD", path=PATH))
    assert head.status == 200


async def test_a_card_in_a_version_that_we_do_not_have_is_refused(world: World) -> None:
    answer = await fetch(world, a2a_version="4.2")
    assert answer.status == 400
    assert answer.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_every_agent_has_a_card_at_a_place_of_its_own() -> None:
    agents = {"test/one": {"name": "One"}, "test/two": {"name": "Two"}}
    async with open_world(agents=agents) as world:
        assert (await fetch(world)).status == 404
        for handle, name in (("test/one", "One"), ("test/two", "Two")):
            own = f"/api/a2a/v1/agents/{handle}"
            for path in (f"{own}/agent-card.json", f"{own}/.well-known/agent-card.json"):
                card = (await fetch(world, path, a2a_version="1.0")).json()
                assert card["name"] == name
                assert card["supportedInterfaces"][0]["url"] == BASE_URL + own


async def test_agents_do_not_see_the_tasks_of_each_other(dialect: str) -> None:
    async with open_world(agents={"test/one": {}, "test/two": {}}) as world:
        one, two = (world.client(dialect, agent=f"test/{name}") for name in ("one", "two"))
        task = await one.run("ask which?")
        with refused("TASK_NOT_FOUND"):
            await two.get(task["id"])
        with refused("TASK_NOT_FOUND"):
            await two.cancel(task["id"])
        assert (await two.list())["totalSize"] == 0


async def test_what_is_configured_is_on_the_card() -> None:
    skill = SkillSettings(id="bake", name="Bake", tags=("bread",), examples=("a loaf",))
    extension = ExtensionSettings(uri="https://ext.example/a", required=True, params={"n": 1})
    async with open_world(
        version="2.3",
        provider=ProviderSettings(organization="Bakery", url="https://bakery.example"),
        documentation_url="https://docs.example",
        icon_url="https://icon.example",
        skills=(skill,),
        extensions=(extension,),
        streaming=False,
    ) as world:
        card = await card_10(world)
    assert card["version"] == "2.3"
    assert card["provider"] == {"organization": "Bakery", "url": "https://bakery.example"}
    assert card["documentationUrl"] == "https://docs.example"
    assert card["iconUrl"] == "https://icon.example"
    assert card["skills"] == [
        {
            "id": "bake",
            "name": "Bake",
            "description": "Bake",
            "tags": ["bread"],
            "examples": ["a loaf"],
        }
    ]
    assert card["capabilities"]["streaming"] is False
    assert card["capabilities"]["extensions"] == [
        {"uri": "https://ext.example/a", "required": True, "params": {"n": 1}}
    ]


async def test_without_an_extended_card_it_is_unsupported(world: World, dialect: str) -> None:
    # 0.3, 8.2 has an error of its own for it; 1.0, 3.3.4 goes by the capability on the card.
    is_old = dialect in V03
    with refused("EXTENDED_AGENT_CARD_NOT_CONFIGURED" if is_old else "UNSUPPORTED_OPERATION"):
        await world.client(dialect).call("GetExtendedAgentCard", {})


async def test_the_extended_card_adds_to_the_public_one(dialect: str) -> None:
    extended = ExtendedCardSettings(
        description="All of it", skills=(SkillSettings(id="secret-skill"),)
    )
    async with open_world(extended_card=extended) as world:
        public = await fetch(world, a2a_version="1.0")
        assert public.json()["capabilities"]["extendedAgentCard"] is True
        assert b"secret-skill" not in public.body
        older = (await fetch(world, a2a_version="0.3")).json()
        assert older["supportsAuthenticatedExtendedCard"] is True
        client = world.client(dialect)
        card = await client.call("GetExtendedAgentCard", {})
        assert card["description"] == "All of it"
        assert "secret-skill" in [skill["id"] for skill in card["skills"]]
        # In the form of the version that asks.
        assert ("supportedInterfaces" in card) == (client.version == "1.0")


async def test_the_extended_card_needs_authentication(dialect: str) -> None:
    extended = ExtendedCardSettings(description="All of it")
    # Also where nothing else does.
    for anonymous in ("never", "loopback"):
        async with open_world(extended_card=extended, anonymous=anonymous) as world:
            with refused("UNAUTHENTICATED") as caught:
                await world.client(dialect, "").call("GetExtendedAgentCard", {})
            assert "www-authenticate" in caught.value.answer.headers


@over("rest-1.0", "rest-0.3")
async def test_the_extended_card_is_kept_by_its_reader_alone(dialect: str) -> None:
    async with open_world(extended_card=ExtendedCardSettings(name="More")) as world:
        client = world.client(dialect)
        answer = await client.http.send(client.request("GetExtendedAgentCard", {}))
        assert answer.headers["cache-control"] == "private, max-age=300"
        assert answer.headers["vary"] == "Authorization, X-API-Key, A2A-Version"
