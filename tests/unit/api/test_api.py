"""The HTTP interface of the hub: routes, methods, credentials, and every way to be refused."""

import logging
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse
from tests.bindings.asgi import Answer, Asgi, Http

from trunkline.api.api import Api, Call, Route
from trunkline.api.input import MAX_BODY_BYTES
from trunkline.model.errors import (
    Conflict,
    GatewayBug,
    InvalidParams,
    PermissionDenied,
    RecordConflict,
    RouteNotFound,
    StoreUnusable,
    TooManyRequests,
    TrunklineError,
    Unauthenticated,
    Unavailable,
)
from trunkline.model.principal import OPERATOR, Principal

USER = Principal(id="user:ann", roles=("owner:ann",))
BOSS = Principal(id="user:boss", roles=(OPERATOR,))
TOKENS = {"Bearer user": USER, "Bearer boss": BOSS}
REFUSALS: dict[str, Exception] = {
    "parameter": InvalidParams.at("name", "is too long"),
    "unknown": RouteNotFound("There is no such agent"),
    "denied": PermissionDenied("Not yours"),
    "taken": Conflict("The name is taken"),
    "changed": RecordConflict("agent.1 ann/x has version 3"),
    "often": TooManyRequests("Too often", retry_after_s=7),
    "busy": Unavailable("Draining", retry_after_s=3),
    "broken": StoreUnusable("/var/lib/hub.db is damaged"),
    "bug": GatewayBug("secret detail"),
    "crash": RuntimeError("secret detail"),
}


class Query(Struct, frozen=True, kw_only=True, rename="camel"):
    page_size: int = 20


class Agent(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    day_limit: int = 0


class Seen(Struct, frozen=True, kw_only=True, rename="camel"):
    path: dict[str, str]
    page_size: int


async def identify(request: Request) -> Principal | None:
    given = request.headers.get("authorization")
    if given is None:
        return None
    if given not in TOKENS:
        raise Unauthenticated("Unknown token")
    return TOKENS[given]


async def see(call: Call) -> Seen:
    return Seen(path=dict(call.path), page_size=call.query.page_size)


async def create(call: Call) -> Agent:
    assert isinstance(call.body, Agent)
    return call.body


async def refuse(call: Call) -> None:
    raise REFUSALS[call.path["name"]]


async def nothing(call: Call) -> None:
    call.require_operator()


async def leave(_: Call) -> RedirectResponse:
    return RedirectResponse("https://elsewhere.example", 303)


class Told(Struct):
    refusals: list[tuple[Principal | None, TrunklineError]] = msgspec.field(default_factory=list)

    def __call__(
        self, request: Request, principal: Principal | None, error: TrunklineError
    ) -> None:
        self.refusals.append((principal, error))


def routes() -> list[Route]:
    def route(method: Any, path: str, handle: Any, **more: Any) -> Route:
        return Route(method=method, path=path, name="x", summary="Does it", handle=handle, **more)

    return [
        route("GET", "/agents/{id}", see, query=Query, result=Seen),
        route("POST", "/agents", create, body=Agent, result=Agent, status=201),
        route("PUT", "/refusals/{name}", refuse),
        route("DELETE", "/agents/{id}", nothing),
        route("GET", "/leave", leave, is_public=True, status=303),
    ]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def http(told: Told) -> Asgi:
    api = Api(identify=identify, on_refusal=told, realm="trunkline")
    api.add(*routes())
    return Asgi(api)


async def ask(
    http: Asgi, method: str, path: str, body: bytes = b"", token: str = "user", **more: str
) -> Answer:
    own = {"Authorization": f"Bearer {token}"} if token else {}
    typed = {"Content-Type": "application/json"} if body else {}
    query = more.pop("query", "")
    headers = own | typed | {name.replace("_", "-"): value for name, value in more.items()}
    return await http.send(
        Http(method=method, path=f"/api/v1{path}", body=body, headers=headers, query=query)
    )


def reason(answer: Answer) -> tuple[int, str]:
    error = answer.json()["error"]
    assert error["code"] == answer.status
    return answer.status, error["details"][0]["reason"]


async def test_a_call_has_its_path_query_and_body(http: Asgi) -> None:
    answer = await ask(http, "GET", "/agents/agt_1", query="pageSize=5")
    assert (answer.status, answer.json()) == (200, {"path": {"id": "agt_1"}, "pageSize": 5})
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    made = await ask(http, "POST", "/agents", b'{"name": "x", "dayLimit": 3}')
    assert (made.status, made.json()) == (201, {"name": "x", "dayLimit": 3})


async def test_an_empty_answer_has_no_body(http: Asgi) -> None:
    answer = await ask(http, "DELETE", "/agents/a", token="boss")
    assert (answer.status, answer.body) == (204, b"")


async def test_a_handler_may_return_a_whole_response(http: Asgi) -> None:
    answer = await ask(http, "GET", "/leave", token="")
    assert (answer.status, answer.headers["location"]) == (303, "https://elsewhere.example")


async def test_head_is_answered_as_get(http: Asgi) -> None:
    head = await ask(http, "HEAD", "/agents/agt_1")
    got = await ask(http, "GET", "/agents/agt_1")
    assert (head.status, head.headers) == (got.status, got.headers)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PATCH", "/agents/a", "HEAD, GET, DELETE"),
        ("OPTIONS", "/agents", "POST"),
        ("GET", "/agents", "POST"),
        ("HEAD", "/agents", "POST"),
        ("TRACE", "/agents", "POST"),
        ("get", "/agents/a", "HEAD, GET, DELETE"),
    ],
)
async def test_another_method_names_those_that_are_taken(
    http: Asgi, method: str, path: str, allow: str
) -> None:
    answer = await ask(http, method, path)
    assert reason(answer) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize("path", ["", "/", "/nothing", "/agents/", "/agents/a%2Fb", "/agents/%FF"])
async def test_a_path_that_nothing_serves_is_unknown(http: Asgi, path: str) -> None:
    assert reason(await ask(http, "GET", path)) == (404, "ROUTE_NOT_FOUND")


async def test_a_call_without_a_credential_is_refused_before_its_body_is_read(
    http: Asgi, told: Told
) -> None:
    answer = await ask(http, "POST", "/agents", b"no json", token="")
    assert reason(answer) == (401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"] == 'Bearer realm="trunkline"'
    wrong = await ask(http, "GET", "/leave", token="forged")
    assert reason(wrong) == (401, "UNAUTHENTICATED")
    assert wrong.headers["www-authenticate"].endswith(', error="invalid_token"')
    assert [principal for principal, _ in told.refusals] == [None, None]


async def test_only_operators_do_what_is_for_operators(http: Asgi, told: Told) -> None:
    assert reason(await ask(http, "DELETE", "/agents/a")) == (403, "PERMISSION_DENIED")
    ((principal, error),) = told.refusals
    assert principal == USER
    assert isinstance(error, PermissionDenied)


@pytest.mark.parametrize(
    ("name", "expected", "retry_after"),
    [
        ("parameter", (400, "INVALID_PARAMS"), None),
        ("unknown", (404, "ROUTE_NOT_FOUND"), None),
        ("denied", (403, "PERMISSION_DENIED"), None),
        ("taken", (409, "CONFLICT"), None),
        ("changed", (409, "CONFLICT"), None),
        ("often", (429, "TOO_MANY_REQUESTS"), "7"),
        ("busy", (503, "UNAVAILABLE"), "3"),
        ("broken", (503, "UNAVAILABLE"), "5"),
        ("bug", (500, "INTERNAL_ERROR"), None),
        ("crash", (500, "INTERNAL_ERROR"), None),
    ],
)
async def test_every_error_has_its_status_and_tells_no_detail_of_the_machine(
    http: Asgi,
    name: str,
    expected: tuple[int, str],
    retry_after: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "trunkline.hub")
    answer = await ask(http, "PUT", f"/refusals/{name}")
    assert reason(answer) == expected
    assert answer.headers.get("retry-after") == retry_after
    assert answer.headers["cache-control"] == "no-store"
    for detail in (b"secret", b"hub.db", b"agent.1"):
        assert detail not in answer.body


async def test_a_refusal_names_the_field(http: Asgi) -> None:
    answer = await ask(http, "POST", "/agents", b'{"name": 5}')
    assert reason(answer) == (400, "INVALID_PARAMS")
    (violation,) = answer.json()["error"]["details"][1]["fieldViolations"]
    assert violation == {"field": "name", "description": "expected `str`, got `int`"}


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""]
)
async def test_a_body_of_another_media_type_is_refused(http: Asgi, media_type: str) -> None:
    answer = await ask(http, "POST", "/agents", b'{"name": "x"}', Content_Type=media_type)
    assert reason(answer) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_parameter_of_the_media_type_changes_nothing(http: Asgi) -> None:
    own = "Application/JSON; charset=utf-8"
    answer = await ask(http, "POST", "/agents", b'{"name": "x"}', Content_Type=own)
    assert answer.status == 201


async def test_no_body_and_no_media_type_is_an_empty_object(http: Asgi) -> None:
    answer = await ask(http, "POST", "/agents")
    assert reason(answer) == (400, "INVALID_PARAMS")
    assert answer.json()["error"]["message"] == "name: is required"


async def test_a_body_that_is_too_large_is_refused_by_its_announcement_or_its_size(
    http: Asgi,
) -> None:
    announced = str(MAX_BODY_BYTES + 1)
    answer = await ask(http, "POST", "/agents", b"{", Content_Length=announced)
    assert reason(answer) == (413, "PAYLOAD_TOO_LARGE")
    answer = await ask(http, "POST", "/agents", b" " * (MAX_BODY_BYTES + 1))
    assert reason(answer) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_client_that_leaves_within_its_body_is_no_error(
    http: Asgi, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Authorization": "Bearer user", "Content-Type": "application/json"}
    request = Http(path="/api/v1/agents", headers=headers, body=[b"{", b""])
    scope = request.scope()
    sent: list[Any] = []
    pieces = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return pieces.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await http.app(scope, receive, send)
    assert sent == []
    assert told.refusals == []
    assert caplog.records == []


async def test_routes_may_come_later(told: Told) -> None:
    api = Api(identify=identify, on_refusal=told, realm="trunkline")
    http = Asgi(api)
    assert (await ask(http, "GET", "/leave", token="")).status == 404
    api.add(*routes())
    assert (await ask(http, "GET", "/leave", token="")).status == 303


async def test_a_refusal_that_cannot_be_recorded_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    api = Api(identify=identify, on_refusal=fail, realm="trunkline")
    api.add(*routes())
    assert (await ask(Asgi(api), "GET", "/nothing")).status == 404
    assert "a refusal could not be recorded" in caplog.text
    caplog.clear()


async def test_a_server_that_knows_no_raw_path_is_served(http: Asgi) -> None:
    request = Http(
        method="GET", path="/api/v1/agents/a%20b", headers={"Authorization": "Bearer user"}
    )
    scope = request.scope() | {"raw_path": None}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await http.app(scope, receive, send)
    assert sent[0]["status"] == 200
    assert msgspec.json.decode(sent[1]["body"])["path"] == {"id": "a b"}
