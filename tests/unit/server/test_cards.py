import json

import pytest
from msgspec.structs import replace
from tests.unit.server.endpoints import card, endpoint
from tests.unit.server.requests import Answer, request

from trunkline.model.card import AgentCardSignature, AgentInterface
from trunkline.protocol.cards import STANDARD, Shape
from trunkline.protocol.hub import HubCard
from trunkline.server.asgi import AsgiResponse
from trunkline.server.cards import Cards
from trunkline.server.endpoint import Endpoint

MODIFIED = "Sat, 31 Jan 2026 23:59:59 GMT"
MODIFIED_MS = 1_769_903_999_500


async def get(
    *headers: tuple[bytes, bytes],
    cards: Cards | None = None,
    at: Endpoint | None = None,
    method: str = "GET",
    query: bytes = b"",
) -> Answer:
    sent = Answer()
    asked = request(method=method, query=query, headers=headers)
    await (cards or Cards(modified_ms=MODIFIED_MS)).serve(
        at or endpoint(), asked, AsgiResponse(sent)
    )
    return sent


async def test_a_card_comes_with_what_caches_need() -> None:
    sent = await get()
    assert sent.status == 200
    assert sent.headers == {
        "content-type": "application/json",
        "content-length": str(len(sent.body)),
        "etag": sent.headers["etag"],
        "cache-control": "public, max-age=300",
        "last-modified": MODIFIED,
        "vary": "A2A-Version",
        "trunkline-features": "event-ids, idempotency-key",
    }


@pytest.mark.parametrize(
    ("headers", "query", "has"),
    [
        ([], b"", {"supportedInterfaces", "protocolVersion"}),
        ([(b"a2a-version", b"1.0")], b"", {"supportedInterfaces"}),
        ([(b"a2a-version", b"0.3")], b"", {"protocolVersion"}),
        ([], b"A2A-Version=0.3.0", {"protocolVersion"}),
        ([(b"a2a-version", b"0.3")], b"format=1.0", {"supportedInterfaces"}),
        ([], b"format=hybrid", {"supportedInterfaces", "protocolVersion"}),
    ],
)
async def test_the_form_is_the_one_asked_for(
    headers: list[tuple[bytes, bytes]], query: bytes, has: set[str]
) -> None:
    found = json.loads((await get(*headers, query=query)).body)
    assert {"supportedInterfaces", "protocolVersion"} & set(found) == has
    assert found["name"] == "Echo"


async def test_forms_have_tags_of_their_own() -> None:
    cards = Cards(modified_ms=MODIFIED_MS)
    tags = [
        (await get(cards=cards, query=b"format=" + form)).headers["etag"]
        for form in (b"1.0", b"0.3", b"hybrid", b"1.0")
    ]
    assert len(set(tags)) == 3
    assert tags[0] == tags[3]


async def test_a_card_that_is_known_is_not_sent_again() -> None:
    tag = (await get()).headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        sent = await get((b"if-none-match", known.encode()))
        assert (sent.status, sent.body) == (304, b"")
        assert sent.headers == {
            "etag": tag,
            "cache-control": "public, max-age=300",
            "last-modified": MODIFIED,
            "vary": "A2A-Version",
            "trunkline-features": "event-ids, idempotency-key",
        }


async def test_another_tag_gets_the_card_whatever_the_date() -> None:
    later = (b"if-modified-since", b"Sun, 01 Feb 2026 00:00:00 GMT")
    assert (await get((b"if-none-match", b'"other"'), later)).status == 200


@pytest.mark.parametrize(
    ("since", "status"),
    [
        (MODIFIED, 304),
        ("Sun, 01 Feb 2026 00:00:00 GMT", 304),
        ("Sat, 31 Jan 2026 23:59:58 GMT", 200),
        ("whenever", 200),
    ],
)
async def test_the_date_is_compared_where_there_is_no_tag(since: str, status: int) -> None:
    assert (await get((b"if-modified-since", since.encode()))).status == status


async def test_head_has_the_same_headers() -> None:
    assert (await get(method="HEAD")).headers == (await get()).headers


async def test_another_method_is_refused() -> None:
    sent = await get(method="POST")
    assert sent.status == 405
    assert sent.headers["allow"] == "GET, HEAD"
    assert "GET" in json.loads(sent.body)["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "query", "reason"),
    [
        ([(b"a2a-version", b"9.9")], b"", "VERSION_NOT_SUPPORTED"),
        ([], b"format=xml", "INVALID_PARAMS"),
    ],
)
async def test_what_cannot_be_served_is_explained(
    headers: list[tuple[bytes, bytes]], query: bytes, reason: str
) -> None:
    sent = await get(*headers, query=query)
    assert sent.status == 400
    assert reason in sent.body.decode()


async def test_a_card_without_an_0_3_interface_has_no_0_3_form() -> None:
    interface = AgentInterface(
        url="http://h/a", protocol_binding="JSONRPC", protocol_version="1.0", tenant="acme"
    )
    at = endpoint(card=card(supported_interfaces=(interface,)))
    assert (await get(at=at)).status == 200
    assert (await get(at=at, query=b"format=0.3")).status == 400


async def test_endpoints_that_share_an_address_keep_their_own_cards() -> None:
    cards = Cards(modified_ms=MODIFIED_MS)
    one = endpoint(card=card(name="One"), card_paths=("/one.json",))
    two = endpoint(card=card(name="Two"), card_paths=("/two.json",))
    assert one.jsonrpc_path == two.jsonrpc_path
    for at in (one, two):
        assert json.loads((await get(cards=cards, at=at)).body)["name"] == at.card.name


async def test_a_card_that_is_renewed_is_another_one() -> None:
    cards, at = Cards(modified_ms=MODIFIED_MS), endpoint()
    first = await get(cards=cards, at=at)
    at.card = replace(at.card, name="Renamed")
    at.renewed_ms = MODIFIED_MS + 60_000
    known = [(b"if-none-match", first.headers["etag"].encode())]
    second = await get(*known, cards=cards, at=at)
    assert json.loads(second.body)["name"] == "Renamed"
    assert second.headers["last-modified"] == "Sun, 01 Feb 2026 00:00:59 GMT"
    since = (b"if-modified-since", MODIFIED.encode())
    assert (await get(since, cards=cards, at=at)).status == 200


class Registered:
    is_private = False
    is_open = True
    is_listed = True
    is_fresh = True

    async def renew(self) -> None:
        pass

    async def card_block(self) -> tuple[str, bytes] | None:
        return "_trunkline", b'{"online":true}'


STYLE = HubCard(
    organization="Trunkline", organization_url="https://h", bearer_format="", bearer_description=""
)


@pytest.mark.parametrize(
    ("shape", "query", "has_block"),
    [
        (STANDARD, b"", False),
        (STANDARD, b"format=1.0", False),
        (STANDARD, b"format=0.3", True),
        (Shape(unstated=STYLE.of), b"", True),
        (Shape(unstated=STYLE.of), b"format=1.0", False),
    ],
)
async def test_the_block_of_a_registry_is_in_every_form_that_is_not_signed(
    shape: Shape, query: bytes, has_block: bool
) -> None:
    signed = replace(card(), signatures=(AgentCardSignature(protected="p", signature="s"),))
    at = endpoint(card=signed, shape=shape, standing=Registered())
    found = json.loads((await get(at=at, query=query)).body)
    assert ("_trunkline" in found) is has_block
    assert ("signatures" in found) is not has_block


async def test_a_card_of_the_hub_is_never_taken_from_a_cache_unasked() -> None:
    at = endpoint(shape=Shape(unstated=STYLE.of))
    sent = await get(at=at)
    assert sent.headers["cache-control"] == "private, no-cache"
    again = await get((b"if-none-match", sent.headers["etag"].encode()), at=at)
    assert (again.status, again.headers["cache-control"]) == (304, "private, no-cache")
