"""An `openclaw.json` over HTTP: I-1, I-4, I-5, D11 and D-10, D-16 to D-18 on the application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Asgi, Http

from trunkline.app.gateway import build
from trunkline.engine.history_scope import OPT
from trunkline.settings.openclaw.load import load_openclaw
from trunkline.testing import FakeClock
from trunkline.version import VERSION

URL = "https://agents.example.com"
KEY = "0123456789abcdef0123"
CARD, RPC = "/.well-known/agent-card.json", "/a2a/jsonrpc"
IDLE = {"agentCardPath": "/idle/card", "jsonRpcPath": "/idle/rpc"}
JSON = {"content-type": "application/json"}
MODES = ["text/plain", "application/json"]
MESSAGE = {
    "kind": "message",
    "messageId": "m1",
    "role": "user",
    "parts": [{"kind": "text", "text": "hello"}],
}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": MESSAGE}}


@asynccontextmanager
async def served(folder: Path, document: Any, **options: Any) -> AsyncIterator[Asgi]:
    file = folder / "openclaw.json"
    file.write_bytes(msgspec.json.encode(document))
    options = {"overrides": {"store": {"kind": "memory"}}, "environment": {}} | options
    settings = load_openclaw(file, **options).settings
    gateway = build(settings, base_url="http://127.0.0.1:8642", clock=FakeClock())
    await gateway.runtimes.open()
    try:
        yield Asgi(gateway.application)
    finally:
        await gateway.runtimes.close()


def accounts(**by_id: Any) -> dict[str, Any]:
    return {"channels": {"a2a": {"accounts": by_id}}}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Asgi]:
    document = accounts(
        default={"label": "Primary", "publicBaseUrl": URL, "maxBodyBytes": 500},
        idle=IDLE,
        off={"enabled": False, "agentCardPath": "/off/card", "jsonRpcPath": "/off/rpc"},
    )
    async with served(tmp_path, document) as http:
        yield http


def envelope(code: str, message: str, account: str) -> dict[str, Any]:
    details = {"channel": "a2a", "accountId": account}
    return {"error": {"code": code, "message": message, "details": details}}


NOT_FOUND = envelope("A2A_ROUTE_NOT_FOUND", "No A2A inbound route matched this request.", "default")


def post(path: str, body: object, **headers: str) -> Http:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Http(path=path, headers=JSON | headers, body=raw)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", RPC), ("PUT", RPC), ("DELETE", RPC), ("POST", CARD), ("PUT", CARD)],
)
async def test_i4_other_methods_find_no_route(http: Asgi, method: str, path: str) -> None:
    answer = await http.send(Http(method=method, path=path))
    assert (answer.status, answer.json()) == (404, NOT_FOUND)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_i4_there_are_no_files(http: Asgi, method: str) -> None:
    answer = await http.send(Http(method=method, path="/a2a/files/x/y"))
    assert (answer.status, answer.json()) == (404, NOT_FOUND)


@pytest.mark.parametrize("path", ["/idle/card", "/idle/rpc"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
async def test_i4_i1_an_account_that_does_not_run_says_so(
    http: Asgi, method: str, path: str
) -> None:
    answer = await http.send(Http(method=method, path=path))
    message = "The requested A2A inbound account is not running."
    assert answer.status == 503
    assert answer.json() == envelope("A2A_ACCOUNT_NOT_RUNNING", message, "idle")


@pytest.mark.parametrize("path", ["/idle/rpc/", "/idle/rpc/x", "/idle"])
async def test_i1_the_routes_of_an_idle_account_are_exact(http: Asgi, path: str) -> None:
    assert (await http.send(Http(path=path))).status == 404


async def test_figures_are_not_for_everybody_who_reaches_an_account(http: Asgi) -> None:
    answer = await http.send(Http(method="GET", path="/metrics"))
    assert answer.status == 401


@pytest.mark.parametrize("path", ["/off/card", "/off/rpc"])
async def test_i1_a_disabled_account_has_no_routes(http: Asgi, path: str) -> None:
    answer = await http.send(Http(method="GET", path=path))
    assert answer.status == 404
    assert "Nothing is served at this path" in answer.body.decode()


@pytest.mark.parametrize(
    "path",
    [
        f"{RPC}/",
        "/a2a/rest/message:send",
        "/api/a2a/v1/agents/openclaw/default",
        "/api/a2a/v1/agents/openclaw/default/agent-card.json",
        "/api/a2a/v1/agents/openclaw/default/message:send",
    ],
)
async def test_i1_an_account_has_two_exact_routes(http: Asgi, path: str) -> None:
    answer = await http.send(post(path, HELLO))
    assert answer.status == 404
    assert "Nothing is served at this path" in answer.body.decode()


async def test_an_account_answers(http: Asgi) -> None:
    answer = (await http.send(post(RPC, HELLO))).json()
    assert answer["id"] == 1
    assert "hello" in str(answer["result"])


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"jsonrpc":', b"{'a': 1}"])
async def test_i4_d11_malformed_json_is_a_parse_error(http: Asgi, body: bytes) -> None:
    answer = await http.send(post(RPC, body))
    assert (answer.status, answer.json()["error"]["code"]) == (200, -32700)


async def test_i4_d11_a_text_as_body_is_no_request(http: Asgi) -> None:
    answer = await http.send(post(RPC, b'"hello"'))
    assert (answer.status, answer.json()["error"]["code"]) == (200, -32600)


@pytest.mark.parametrize("pieces", [False, True])
async def test_i4_d11_a_body_over_the_limit_of_the_account_is_413(http: Asgi, pieces: bool) -> None:
    body = msgspec.json.encode(HELLO | {"padding": "x" * 500})
    request = post(RPC, body)
    request.body = [body[:300], body[300:]] if pieces else body
    answer = await http.send(request)
    assert answer.status == 413
    assert "500 bytes" in answer.json()["error"]["message"]


EXACT = {
    "protocolVersion": "0.3.0",
    "name": "Primary",
    "description": "Expose an OpenClaw agent as an inbound A2A endpoint.",
    "url": f"{URL}{RPC}",
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [{"url": f"{URL}{RPC}", "transport": "JSONRPC"}],
    "version": VERSION,
    "capabilities": {
        "streaming": True,
        "pushNotifications": False,
        "stateTransitionHistory": False,
    },
    "defaultInputModes": ["text/plain", "application/json"],
    "defaultOutputModes": ["text/plain", "application/json"],
    "skills": [
        {
            "id": "chat",
            "name": "Chat",
            "description": "Chat",
            "tags": ["chat"],
            "inputModes": ["text/plain", "application/json"],
            "outputModes": ["text/plain", "application/json"],
        }
    ],
}


@pytest.mark.parametrize("headers", [{}, {"A2A-Version": "0.3"}])
async def test_i5_the_card_is_exact(http: Asgi, headers: dict[str, str]) -> None:
    answer = await http.send(Http(method="GET", path=CARD, headers=headers))
    assert answer.json() == EXACT


async def test_i5_a_card_says_what_the_account_says(tmp_path: Path) -> None:
    skills: list[dict[str, Any]] = [
        {"id": "a", "name": "A", "description": "Does a", "tags": ["t"], "examples": ["e"]},
        {"id": "b", "name": "B"},
    ]
    account = {
        "publicBaseUrl": URL,
        "description": "Mine",
        "protocolVersion": "0.3.7",
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["image/png"],
        "agentCardPath": "card",
        "jsonRpcPath": "rpc",
        "skills": skills,
    }
    async with served(tmp_path, accounts(main=account)) as http:
        card = (await http.send(Http(method="GET", path="/card"))).json()
    modes = {"inputModes": ["text/plain"], "outputModes": ["image/png"]}
    assert card["name"] == "main"
    assert card["description"] == "Mine"
    assert card["protocolVersion"] == "0.3.7"
    assert card["url"] == f"{URL}/rpc"
    assert card["skills"] == [
        skills[0] | modes,
        {"id": "b", "name": "B", "description": "B", "tags": ["b"], **modes},
    ]


async def test_i5_the_path_prefix_of_the_public_base_url_is_kept(tmp_path: Path) -> None:
    document = accounts(default={"publicBaseUrl": f"{URL}/tenant/one/"})
    async with served(tmp_path, document) as http:
        card = (await http.send(Http(method="GET", path=CARD))).json()
        rpc = await http.send(post(RPC, HELLO))
    assert card["url"] == f"{URL}/tenant/one/a2a/jsonrpc"
    # The proxy that knows the prefix takes it off.
    assert rpc.status == 200


async def test_accounts_have_paths_labels_and_skills_of_their_own(tmp_path: Path) -> None:
    both = accounts(
        a={"publicBaseUrl": URL, "label": "A"},
        b={
            "publicBaseUrl": "https://b.example",
            "label": "B",
            "agentCardPath": "/b/card",
            "jsonRpcPath": "/b/rpc",
            "skills": [{"id": "b", "name": "Only b"}],
        },
    )
    async with served(tmp_path, both) as http:
        cards = [
            (await http.send(Http(method="GET", path=path))).json() for path in (CARD, "/b/card")
        ]
        answers = [(await http.send(post(path, HELLO))).json() for path in (RPC, "/b/rpc")]
        missing = await http.send(Http(method="GET", path="/b/rpc"))
    assert [card["name"] for card in cards] == ["A", "B"]
    assert [card["url"] for card in cards] == [f"{URL}{RPC}", "https://b.example/b/rpc"]
    assert [card["skills"][0]["id"] for card in cards] == ["chat", "b"]
    assert all("result" in answer for answer in answers)
    assert missing.json()["error"]["details"]["accountId"] == "b"


@pytest.mark.parametrize(
    ("host", "status"),
    [("agents.example.com", 200), ("127.0.0.1:8642", 200), ("rebound.example", 403)],
)
async def test_without_keys_callers_use_the_name_on_the_card(
    http: Asgi, host: str, status: int
) -> None:
    assert (await http.send(post(RPC, HELLO, host=host))).status == status


async def test_a_key_in_a_toml_file_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "trunkline.toml"
    config.write_text(f'[auth.keys.me]\nkey = "{KEY}"\n')
    document = accounts(default={"publicBaseUrl": URL})
    async with served(tmp_path, document, config=config) as http:
        refused = await http.send(post(RPC, HELLO))
        answered = await http.send(post(RPC, HELLO, authorization=f"Bearer {KEY}"))
        card = (await http.send(Http(method="GET", path=CARD))).json()
    assert (refused.status, answered.status) == (401, 200)
    assert card["security"]


def design(**server: Any) -> dict[str, Any]:
    tools = [{"name": "search", "description": "Looks in /srv"}, {"name": "sh", "expose": False}]
    return {
        "a2a": {"server": {"publicUrl": URL, **server}},
        "agent": {"name": "Zaf"},
        "skills": [{"name": "write", "displayName": "Write", "description": "Writes"}],
        "tools": tools,
    }


PATHS = [CARD, "/a2a/.well-known/agent-card.json"]


@pytest.mark.parametrize("path", PATHS)
async def test_d10_direct_mode_serves_card_and_json_rpc_at_its_path(
    tmp_path: Path, path: str
) -> None:
    async with served(tmp_path, design()) as http:
        card = (await http.send(Http(method="GET", path=path))).json()
        answer = (await http.send(post("/a2a", HELLO))).json()
    assert card["url"] == f"{URL}/a2a"
    assert answer["result"]["kind"] == "task"


async def test_d14_d15_d16_d18_the_generated_card(tmp_path: Path) -> None:
    async with served(tmp_path, design()) as http:
        card = (await http.send(Http(method="GET", path=CARD))).json()
    assert (card["name"], card["version"]) == ("Zaf", "1.0.0")
    assert card["capabilities"] == {
        "streaming": True,
        "pushNotifications": False,
        "stateTransitionHistory": True,
    }
    assert card["protocolVersion"] == "0.3.0"
    assert card["skills"] == [
        {"id": "write", "name": "Write", "description": "Writes", "tags": ["write"]},
        {"id": "search", "name": "search", "description": "search", "tags": ["search"]},
    ]
    assert "security" not in card


async def test_d18_with_1_0_beside_it_the_card_is_valid_in_both(tmp_path: Path) -> None:
    config = tmp_path / "trunkline.toml"
    config.write_text(
        '[agents."openclaw-design/main"]\ndialect = "auto"\ndefault_version = "1.0"\n'
    )
    async with served(tmp_path, design(), config=config) as http:
        card = (await http.send(Http(method="GET", path=CARD))).json()
    assert card["supportedInterfaces"][0] == {
        "url": f"{URL}/a2a",
        "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0",
    }
    assert (card["url"], card["protocolVersion"]) == (f"{URL}/a2a", "0.3.0")
    assert all(skill["tags"] for skill in card["skills"])


@pytest.mark.parametrize("scheme", ["bearer", "apiKey"])
async def test_d17_the_card_announces_the_scheme(tmp_path: Path, scheme: str) -> None:
    document = design(auth={"scheme": scheme, "apiKey": KEY})
    async with served(tmp_path, document) as http:
        answer = await http.send(Http(method="GET", path=CARD))
        header = {"bearer": ("authorization", f"Bearer {KEY}"), "apiKey": ("x-api-key", KEY)}
        called = await http.send(post("/a2a", HELLO, **dict([header[scheme]])))
        refused = await http.send(post("/a2a", HELLO))
    card = answer.json()
    assert scheme in card["securitySchemes"]
    assert {scheme: []} in card["security"]
    assert scheme in card["authentication"]["schemes"]
    assert (called.status, refused.status) == (200, 401)
    assert KEY not in answer.body.decode()


async def test_d18_the_extended_card_describes_the_tools(tmp_path: Path) -> None:
    document = design(auth={"scheme": "bearer", "apiKey": KEY})
    ask = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
    async with served(tmp_path, document) as http:
        public = await http.send(Http(method="GET", path=CARD))
        extended = await http.send(post("/a2a", ask, authorization=f"Bearer {KEY}"))
    assert "/srv" not in public.body.decode()
    skills = {skill["id"]: skill for skill in extended.json()["result"]["skills"]}
    assert skills["search"]["description"] == "Looks in /srv"
    assert [*skills] == ["write", "search"]


def asks(text: str, **configuration: Any) -> dict[str, Any]:
    message = MESSAGE | {"parts": [{"kind": "text", "text": text}]}
    params = {"message": message, "configuration": configuration}
    return HELLO | {"params": params}


SEE = 'parts [{"text": "see"}, {"url": "https://x.test/a.png"}]'
IMAGE = 'parts [{"url": "https://x.test/a.png"}]'
SCRIPTED = {"agents": {"openclaw/default": {"backend": {"kind": "scripted"}}}}


def with_modes(*modes: str) -> dict[str, Any]:
    return accounts(default={"publicBaseUrl": URL, "defaultOutputModes": [*modes]})


def scripted() -> dict[str, Any]:
    return {"overrides": {"store": {"kind": "memory"}} | SCRIPTED}


@pytest.mark.parametrize("modes", [{}, {"acceptedOutputModes": []}], ids=["none", "empty"])
async def test_i9_no_file_goes_out_to_a_caller_who_names_no_modes(
    tmp_path: Path, modes: dict[str, Any]
) -> None:
    """The plugin has no way to send files; the modes of the account are what goes out."""
    async with served(tmp_path, with_modes("text/plain"), **scripted()) as http:
        told = (await http.send(post(RPC, asks(SEE, **modes)))).json()["result"]
        assert told["parts"] == [{"kind": "text", "text": "see"}]
        error = (await http.send(post(RPC, asks(IMAGE, **modes)))).json()["error"]
        assert error["code"] == -32005
        assert error["data"] == {
            "acceptedOutputModes": ["text/plain"],
            "availableOutputModes": ["image/png"],
        }
        task = (await http.send(post(RPC, asks(IMAGE, blocking=False, **modes)))).json()["result"]
        assert task["kind"] == "task"


async def test_i9_a_file_goes_out_where_caller_or_account_names_its_type(tmp_path: Path) -> None:
    async with served(tmp_path, with_modes("text/plain"), **scripted()) as http:
        asked = asks(SEE, acceptedOutputModes=["text/plain", "image/*"])
        told = (await http.send(post(RPC, asked))).json()["result"]
        assert [part["kind"] for part in told["parts"]] == ["text", "file"]
    async with served(tmp_path, with_modes("text/plain", "image/png"), **scripted()) as http:
        told = (await http.send(post(RPC, asks(SEE)))).json()["result"]
        assert [part["kind"] for part in told["parts"]] == ["text", "file"]


PAINTER = """
from trunkline import agent

@agent(name="Painter", output_modes=["image/png"])
async def painter(turn):
    return "a picture"
"""


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ({}, ["image/png"]),
        ({"defaultOutputModes": ["text/plain", "application/json"]}, MODES),
        ({"defaultOutputModes": ["text/html"]}, ["text/html"]),
    ],
    ids=["absent", "as-the-default", "other"],
)
async def test_i2_modes_that_an_account_names_win_over_the_agents_own(
    tmp_path: Path, keys: dict[str, Any], shown: list[str]
) -> None:
    (tmp_path / "painter.py").write_text(PAINTER)
    document = accounts(default={"publicBaseUrl": URL, **keys})
    async with served(tmp_path, document, target=f"{tmp_path}/painter.py") as http:
        card = (await http.send(Http(method="GET", path=CARD))).json()
    assert card["defaultOutputModes"] == shown
    assert [skill["outputModes"] for skill in card["skills"]] == [shown]


@pytest.mark.parametrize(
    ("scheme", "good", "other"),
    [("bearer", "authorization", "x-api-key"), ("apiKey", "x-api-key", "authorization")],
)
async def test_d33_the_scheme_is_the_one_way_to_send_the_key(
    tmp_path: Path, scheme: str, good: str, other: str
) -> None:
    document = {"a2a": {"server": {"publicUrl": URL, "auth": {"scheme": scheme, "apiKey": KEY}}}}
    sent = {"authorization": f"Bearer {KEY}", "x-api-key": KEY}
    async with served(tmp_path, document) as http:
        card = (await http.send(Http(method="GET", path=CARD))).json()
        assert [*card["securitySchemes"]] == [scheme]
        assert card["security"] == [{scheme: []}]
        assert card["authentication"] == {"schemes": [scheme]}
        assert (await http.send(post("/a2a", HELLO, **{good: sent[good]}))).status == 200
        refused = await http.send(post("/a2a", HELLO, **{other: sent[other]}))
        assert refused.status == 401
        way = "'X-API-Key: KEY'" if scheme == "apiKey" else "'Authorization: Bearer KEY'"
        assert f"takes an API key only as {way}" in refused.body.decode()


async def test_d32_a_caller_who_uses_opt_sees_the_history_of_the_plan(tmp_path: Path) -> None:
    document = {"a2a": {"server": {"publicUrl": URL}}}
    agent = {"extensions": [{"uri": OPT}], "backend": {"kind": "scripted"}}
    overrides = {"store": {"kind": "memory"}, "agents": {"openclaw-design/main": agent}}

    def said(text: str, **metadata: str) -> dict[str, Any]:
        own = {"messageId": text, "parts": [{"kind": "text", "text": f"say {text}"}]}
        message = MESSAGE | own | {"metadata": metadata}
        return HELLO | {"params": {"message": message, "configuration": {"blocking": True}}}

    async with served(tmp_path, document, overrides=overrides) as http:
        uses = {"x-a2a-extensions": OPT}
        plan = {"opt/v1/planId": "p"}
        await http.send(post("/a2a", said("one", **plan)))
        asked = post("/a2a", said("two", **plan, **{"opt/v1/historyScope": "plan"}), **uses)
        told = (await http.send(asked)).json()["result"]
        get = HELLO | {"method": "tasks/get", "params": {"id": told["id"]}}
        wide = (await http.send(post("/a2a", get, **uses))).json()["result"]
        own = (await http.send(post("/a2a", get))).json()["result"]
    texts = [[each["parts"][0]["text"] for each in task["history"]] for task in (wide, own)]
    assert texts == [["say one", "one", "say two", "two"], ["say two", "two"]]
