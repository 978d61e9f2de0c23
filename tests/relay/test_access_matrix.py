"""Who may do what at a relay: every kind of credential at every address.

An agent of another tenant is answered like one that does not exist, byte for byte.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import asdict, replace
from tests.bindings.asgi import Answer, Http
from tests.bindings.clients import CLIENTS, OPERATIONS, PUSH, Address, Client
from tests.bindings.test_operations import PARAMS
from tests.hub.jwt_issuer import part
from tests.relay.gateways import RelayedWorld, open_relayed_world, relay_settings
from tests.relay.tenants_world import SECRETS, TENANTS, client_claims, host_claims, signed
from tests.relay.world import newest

from trunkline.app.gateway import build
from trunkline.config.secret import Secret
from trunkline.protocol.relay.close_codes import FORBIDDEN, NOT_AUTHENTICATED
from trunkline.protocol.relay.polling import CONNECTIONS_PATH
from trunkline.relay.hosts.host import HostState
from trunkline.relay.tenants.jwt_claims import SCOPES
from trunkline.relay.tenants.settings import TenantSettings
from trunkline.settings import Settings
from trunkline.settings.auth import ApiKey
from trunkline.settings.hub import HubSettings
from trunkline.settings.relay import AGENT_PATH
from trunkline.settings.relay_server import RelayServerSettings
from trunkline.testing import FakeClock, settle

# Runs long, over lines that other tests cover.
pytestmark = pytest.mark.no_cover

NOW_MS: Final = FakeClock().now_ms()
NOW_S: Final = NOW_MS // 1000
DAY_S: Final = 24 * 3600
AUDIENCE: Final = "https://relay.example"
ISSUER: Final = "https://issuer.example"
EXPECTED: Final = {"iss": ISSUER, "aud": AUDIENCE}
KEY: Final = "the-key-of-{}-has-some-length"

AGENT: Final = "acme/scripted"
# Names of the same length, so that answers may differ in nothing else.
UNKNOWN_AGENT: Final = "acme/scriptex"
UNKNOWN_TENANT: Final = "acmf/scripted"

# What a caller may do with the agent, by its credential.
ALLOWED, FORBIDDEN_, REFUSED = "allowed", "forbidden", "refused"


def client(tenant: str = "acme", *, secret: str = "", **changes: Any) -> str:
    claims = client_claims(NOW_MS, tenant, **{**EXPECTED, **changes})
    return signed(claims, secret or SECRETS.get(tenant, SECRETS["acme"]))


def host(tenant: str = "acme", **changes: Any) -> str:
    own = {"agent_id": "scripted", "sub": f"agent:{tenant}:scripted"}
    claims = host_claims(NOW_MS, tenant, **{**EXPECTED, **own, **changes})
    return signed(claims, SECRETS[tenant])


def forged(algorithm: str) -> str:
    return f"{part({'alg': algorithm})}.{part(client_claims(NOW_MS, **EXPECTED))}.AAAA"


ON_TIME: Final = {"jti": "jti-of-another"}
CALLERS: Final[dict[str, tuple[str, str]]] = {
    "client": (client(), ALLOWED),
    "client with clocks apart": (client(iat=NOW_S + 59, nbf=NOW_S + 59), ALLOWED),
    "client whose token has just ended": (client(iat=None, exp=NOW_S - 59, **ON_TIME), ALLOWED),
    "operator": (KEY.format("operator"), ALLOWED),
    "key with a grant": (KEY.format("granted"), ALLOWED),
    "client of another tenant": (client("other"), FORBIDDEN_),
    "client without scopes": (client(scopes=[]), FORBIDDEN_),
    "host": (host(), FORBIDDEN_),
    "host of another tenant": (host("other"), FORBIDDEN_),
    "key with another grant": (KEY.format("elsewhere"), FORBIDDEN_),
    "key that attaches": (KEY.format("laptop"), FORBIDDEN_),
    "anonymous": ("", REFUSED),
    "unknown key": ("nobody-has-this-long-key", REFUSED),
    "expired": (client(iat=None, exp=NOW_S - 60), REFUSED),
    "not yet valid": (client(nbf=NOW_S + 120), REFUSED),
    "made in the future": (client(iat=NOW_S + 120), REFUSED),
    "valid for too long": (client(exp=NOW_S + DAY_S + 120), REFUSED),
    "another audience": (client(aud="https://other.example"), REFUSED),
    "no audience": (client(aud=None), REFUSED),
    "another issuer": (client(iss="https://evil.example"), REFUSED),
    "another secret": (client(secret=SECRETS["other"]), REFUSED),
    "secret of another tenant": (client("other", secret=SECRETS["acme"]), REFUSED),
    "unknown tenant": (client("nowhere"), REFUSED),
    "no role": (client(role=None), REFUSED),
    "another role": (client(role="admin"), REFUSED),
    "disabled tenant": (client("disabled", secret=SECRETS["all"]), REFUSED),
    "revoked": (client(jti="revoked"), REFUSED),
    "revoked subject": (client(sub="mallory"), REFUSED),
    "alg none": (forged("none"), REFUSED),
    "alg RS256": (forged("RS256"), REFUSED),
}


class From(Http, kw_only=True):
    """A request of a client with this address."""

    address: str = "127.0.0.1"

    def scope(self) -> dict[str, Any]:
        return super().scope() | {"client": (self.address, 50000)}


def addresses() -> Iterator[str]:
    """Others again and again, so that wrong credentials are counted apart."""
    for number in range(1 << 16):
        yield f"127.1.{number >> 8}.{number & 255}"


class Matrix(Struct):
    world: RelayedWorld
    addresses: Iterator[str]

    async def send(self, request: Http, *, address: str = "") -> Answer:
        sent = From(**asdict(request), address=address or next(self.addresses))
        return await self.world.http.send(sent)

    async def ask(self, dialect: str, token: str, agent: str, operation: str) -> Answer:
        asked = self.client(dialect, token, agent)
        return await self.send(asked.request(operation, PARAMS.get(operation, {"id": "made-up"})))

    async def leave(self) -> None:
        """The agent is away."""
        draining = self.world.relay_tasks.start(self.world.gateway.drain(grace_s=5), name="drain")
        await self.world.clock.advance(5)
        await draining

    def client(self, dialect: str, token: str, agent: str) -> Client:
        tenant, _, name = agent.partition("/")
        path = f"/t/{tenant}/a2a/{name}"
        return CLIENTS[dialect](
            self.world.http, key=token, address=Address(jsonrpc=path, rest=path)
        )

    async def get(self, path: str, token: str, *, method: str = "GET", body: bytes = b"") -> Answer:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return await self.send(Http(method=method, path=path, headers=headers, body=body))


def at_relay(hub: HubSettings | None = None) -> Settings:
    plain = relay_settings()
    keys: dict[str, dict[str, Any]] = {
        "operator": {},
        "granted": {"grants": {AGENT: ("*",)}},
        "elsewhere": {"grants": {"other/*": ("*",)}},
        "laptop": {"attach": ("acme/*",)},
    }
    made = {name: ApiKey(key=Secret(KEY.format(name)), **own) for name, own in keys.items()}
    tenants = {**TENANTS, "disabled": TenantSettings(secrets=(Secret(SECRETS["all"]),))}
    relay = RelayServerSettings(tenants=tenants, issuer=ISSUER, audience=AUDIENCE)
    return replace(plain, auth=replace(plain.auth, keys=made), relay_server=relay, hub=hub)


@asynccontextmanager
async def open_matrix(
    monkeypatch: pytest.MonkeyPatch, *, hub: HubSettings | None = None
) -> AsyncIterator[Matrix]:
    async with open_relayed_world(monkeypatch, at_relay=at_relay(hub), token=host()) as world:
        parts = world.relay.relaying.tenants
        assert parts is not None
        await parts.tenants.set_disabled("disabled", is_disabled=True)
        await parts.denials.add("jti", "revoked")
        await parts.denials.add("sub", "mallory", tenant="acme")
        assert state_of(world) is HostState.ATTACHED
        yield Matrix(world, addresses())


@pytest.fixture
async def matrix(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Matrix]:
    async with open_matrix(monkeypatch) as made:
        yield made


def state_of(world: RelayedWorld) -> HostState:
    own = world.gateway.relaying._host
    assert own is not None
    assert own._host is not None
    return own._host.state


def same(answer: Answer, other: Answer, ours: str, theirs: str) -> bool:
    """Whether two answers are the same but for the names of their agents."""
    body = other.body
    for pair in zip(ours.split("/"), theirs.split("/"), strict=True):
        body = body.replace(pair[1].encode(), pair[0].encode())
    return (answer.status, answer.headers, answer.body) == (other.status, other.headers, body)


# Requests to the agent.


@pytest.mark.parametrize("dialect", ["jsonrpc-1.0", "rest-0.3"])
async def test_every_operation_for_every_caller(matrix: Matrix, dialect: str) -> None:
    for operation in OPERATIONS:
        usual = await matrix.ask(dialect, KEY.format("operator"), AGENT, operation)
        assert usual.status in (200, 400, 404)
        for caller, (token, expected) in CALLERS.items():
            answer = await matrix.ask(dialect, token, AGENT, operation)
            where = (operation, caller, answer.body)
            match expected:
                case "allowed":
                    assert answer.status == usual.status, where
                case "forbidden":
                    assert answer.status == 403, where
                case _:
                    assert answer.status == 401, where
                    assert answer.headers["www-authenticate"].startswith("Bearer "), where


@pytest.mark.parametrize("dialect", ["jsonrpc-1.0", "rest-1.0"])
@pytest.mark.parametrize("other", [UNKNOWN_AGENT, UNKNOWN_TENANT])
@pytest.mark.parametrize("is_away", [False, True], ids=["attached", "away"])
async def test_a_foreign_agent_is_like_an_unknown_one(
    matrix: Matrix, dialect: str, other: str, is_away: bool
) -> None:
    if is_away:
        # Messages for it wait, and its card is still there, for those who may call it.
        await matrix.leave()
        answer = await matrix.ask(dialect, client(), AGENT, "SendMessage")
        assert b"TASK_STATE_SUBMITTED" in answer.body
        assert (await matrix.get(CARDS[0], client())).status == 200
    for caller, (token, expected) in CALLERS.items():
        if expected == ALLOWED:
            continue
        for operation in ("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks"):
            answer = await matrix.ask(dialect, token, AGENT, operation)
            unknown = await matrix.ask(dialect, token, other, operation)
            assert same(answer, unknown, AGENT, other), (caller, operation, answer, unknown)
        card = await matrix.get(CARDS[0], token)
        tenant, _, name = other.partition("/")
        of_other = await matrix.get(
            CARDS[0].replace("acme", tenant).replace("scripted", name), token
        )
        assert same(card, of_other, AGENT, other), (caller, card, of_other)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_scope_allows_its_operations(matrix: Matrix, scope: str) -> None:
    token = client(scopes=[scope])
    for operation in OPERATIONS:
        answer = await matrix.ask("jsonrpc-1.0", token, AGENT, operation)
        usual = await matrix.ask("jsonrpc-1.0", client(), AGENT, operation)
        # What the agent does not have, it has for nobody.
        is_allowed = operation in (*SCOPES[scope], *PUSH, "GetExtendedAgentCard")
        assert answer.status == (usual.status if is_allowed else 403), (operation, answer.body)


async def test_tasks_of_one_client_are_not_those_of_another(matrix: Matrix) -> None:
    mine = matrix.client("jsonrpc-1.0", client(), AGENT)
    task = await mine.run("ask which?")
    for token in (client(sub="bob"), KEY.format("granted"), client(sub=None, user_id="eve")):
        theirs = matrix.client("jsonrpc-1.0", token, AGENT)
        answer = await theirs.http.send(theirs.request("GetTask", {"id": task["id"]}))
        unknown = await theirs.http.send(theirs.request("GetTask", {"id": "0" * len(task["id"])}))
        assert b"TASK_NOT_FOUND" in answer.body
        assert answer.body == unknown.body.replace(b"0" * len(task["id"]), task["id"].encode())
    again = matrix.client("jsonrpc-1.0", client(jti="another-token"), AGENT)
    assert (await again.get(task["id"]))["id"] == task["id"]


# Other addresses.

CARDS: Final = tuple(
    f"/t/acme/a2a/scripted{path}"
    for path in ("/.well-known/agent-card.json", "/.well-known/agent.json")
)


@pytest.mark.parametrize("path", CARDS)
async def test_cards_need_a_credential_as_everything_does(matrix: Matrix, path: str) -> None:
    statuses = {ALLOWED: 200, FORBIDDEN_: 403, REFUSED: 401}
    for caller, (token, expected) in CALLERS.items():
        answer = await matrix.get(path, token)
        assert answer.status == statuses[expected], (caller, answer.body)
        if expected != ALLOWED:
            unknown = await matrix.get(path.replace("scripted", "scriptex"), token)
            assert same(answer, unknown, AGENT, UNKNOWN_AGENT), caller


async def test_a_directory_is_for_those_who_may_read_it(matrix: Matrix) -> None:
    statuses = {ALLOWED: 200, FORBIDDEN_: 403, REFUSED: 401}
    for caller, (token, expected) in CALLERS.items():
        answer = await matrix.get("/t/acme/agents", token)
        # Its grants reach agents of the tenant, and none of their operations is for it.
        status = 200 if caller == "client without scopes" else statuses[expected]
        assert answer.status == status, (caller, answer.body)
        if status == 200:
            names = [each["id"] for each in answer.json()]
            assert names == (["scripted"] if expected == ALLOWED else []), caller
        unknown = await matrix.get("/t/acmf/agents", token)
        if status != 200:
            assert same(answer, unknown, AGENT, UNKNOWN_TENANT), (caller, answer, unknown)
    for scope in SCOPES:
        answer = await matrix.get("/t/acme/agents", client(scopes=[scope]))
        assert bool(answer.json()) == (scope == "agents:read"), scope


async def test_what_waits_is_shown_to_its_client_alone(matrix: Matrix) -> None:
    await matrix.leave()
    sent = await matrix.ask("jsonrpc-1.0", client(), AGENT, "SendMessage")
    task_id = sent.json()["result"]["task"]["id"]
    made_up = "0" * len(task_id)
    mine = await matrix.get(f"/t/acme/tasks/{task_id}", client(jti="another-token"))
    assert (mine.status, mine.json()["status"]) == (200, "queued")
    for caller, (token, expected) in CALLERS.items():
        if caller.startswith("client") and "another" not in caller:
            # The same client, by other tokens.
            continue
        answer = await matrix.get(f"/t/acme/tasks/{task_id}", token)
        assert answer.status == (401 if expected == REFUSED else 404), (caller, answer.body)
        unknown = await matrix.get(f"/t/acme/tasks/{made_up}", token)
        elsewhere = await matrix.get(f"/t/acmf/tasks/{task_id}", token)
        for other in (unknown, elsewhere):
            body = other.body.replace(made_up.encode(), task_id.encode())
            assert (answer.status, answer.body) == (other.status, body), caller


@pytest.mark.parametrize("below", ["/message/send", "/tasks/made-up/cancel"])
async def test_addresses_of_older_relays_need_the_same(matrix: Matrix, below: str) -> None:
    body = msgspec.json.encode({"message": {"messageId": "m", "role": "user", "parts": []}})
    statuses = {FORBIDDEN_: 403, REFUSED: 401}
    for caller, (token, expected) in CALLERS.items():
        answer = await matrix.get(f"/t/acme/a2a/scripted{below}", token, method="POST", body=body)
        if expected == ALLOWED:
            assert answer.status not in (401, 403), (caller, answer.body)
            continue
        assert answer.status == statuses[expected], (caller, answer.body)
        path = f"/t/acme/a2a/scriptex{below}"
        unknown = await matrix.get(path, token, method="POST", body=body)
        assert same(answer, unknown, AGENT, UNKNOWN_AGENT), caller


async def test_no_body_is_read_for_those_who_may_not_call(matrix: Matrix) -> None:
    # More than the relay takes from anybody.
    body = b"x" * (10 * 1024 * 1024 + 1)
    for below in ("/message/send", "/message:send", ""):
        path = f"/t/acme/a2a/scripted{below}"
        for token, status in ((client(), 413), (client("other"), 403), ("", 401)):
            answer = await matrix.get(path, token, method="POST", body=body)
            assert answer.status == status, (below, answer.body)


async def test_the_address_of_the_hub_says_nothing_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = "/api/a2a/v1/agents/{}/tasks"
    async with open_matrix(monkeypatch, hub=HubSettings()) as matrix:
        for caller, (token, expected) in CALLERS.items():
            answer = await matrix.get(path.format(AGENT), token)
            unknown = await matrix.get(path.format(UNKNOWN_AGENT), token)
            if expected == ALLOWED:
                assert answer.status == 200, (caller, answer.body)
            else:
                assert same(answer, unknown, AGENT, UNKNOWN_AGENT), (caller, answer, unknown)


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/version", "/healthz"])
async def test_tokens_of_tenants_open_no_pages(matrix: Matrix, path: str) -> None:
    usual = await matrix.get(path, "")
    for token in (client(), host()):
        assert (await matrix.get(path, token)).status in (usual.status, 401)


# Hosts.

# The code of the connection of a host that offers the agent, or None where it is attached.
ATTACHING: Final[dict[str, int | None]] = {
    **{name: FORBIDDEN for name, (_, expected) in CALLERS.items() if expected != REFUSED},
    **{name: NOT_AUTHENTICATED for name, (_, expected) in CALLERS.items() if expected == REFUSED},
    "host": None,
    "key that attaches": None,
}
HOSTS: Final = {
    "another agent": (host(agent_id="other"), FORBIDDEN),
    "several agents": (host(agent_id=["other", "scripted"]), None),
    "client with an agent": (client(agent_id="scripted"), FORBIDDEN),
    "expired": (host(iat=None, exp=NOW_S - 60), NOT_AUTHENTICATED),
    "revoked": (host(jti="revoked"), NOT_AUTHENTICATED),
}


@pytest.mark.parametrize("caller", CALLERS)
async def test_who_attaches_the_agent(monkeypatch: pytest.MonkeyPatch, caller: str) -> None:
    token = CALLERS[caller][0]
    await _attach(monkeypatch, token or "none", ATTACHING[caller])


@pytest.mark.parametrize("name", HOSTS)
async def test_which_hosts_attach_the_agent(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    await _attach(monkeypatch, *HOSTS[name])


async def _attach(monkeypatch: pytest.MonkeyPatch, token: str, code: int | None) -> None:
    settings = at_relay()
    async with open_relayed_world(monkeypatch, at_relay=settings, token=host()) as world:
        parts = world.relay.relaying.tenants
        assert parts is not None
        await parts.tenants.set_disabled("disabled", is_disabled=True)
        await parts.denials.add("jti", "revoked")
        await parts.denials.add("sub", "mallory")
        # Another gateway, which takes the agent if it may.
        await world.gateway.close()
        own = world.gateway.settings
        assert own.relay is not None
        other = build(
            replace(own, relay=replace(own.relay, token=Secret(token))),
            base_url="https://other.example",
            clock=world.clock,
        )
        await other.open()
        await settle()
        try:
            relaying = other.relaying._host
            assert relaying is not None
            assert relaying._host is not None
            state = relaying._host.state
            assert state is (HostState.ATTACHED if code is None else HostState.REFUSED)
            if code is None:
                assert [*relaying._host.attached_agents] == [AGENT]
        finally:
            await other.close()


async def test_polling_needs_the_same_credentials(matrix: Matrix) -> None:
    path = f"{AGENT_PATH}{CONNECTIONS_PATH}"
    offer = msgspec.json.encode({"protocols": ["a2a.relay.v2"]})
    for caller, (token, expected) in CALLERS.items():
        answer = await matrix.get(path, token, method="POST", body=offer)
        may_attach = caller in ("host", "host of another tenant", "key that attaches")
        status = 201 if may_attach else 401 if expected == REFUSED else 403
        assert answer.status == status, (caller, answer.body)


async def test_a_new_token_must_be_of_the_same_host(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {
        host(jti="new"): None,
        host("other"): FORBIDDEN,
        host(agent_id="other"): FORBIDDEN,
        client(): FORBIDDEN,
        host(jti="revoked"): NOT_AUTHENTICATED,
        host(iat=None, exp=NOW_S - 60): NOT_AUTHENTICATED,
        "nonsense": NOT_AUTHENTICATED,
    }
    for token, code in outcomes.items():
        async with open_matrix(monkeypatch) as matrix:
            own = matrix.world.gateway.relaying._host
            assert own is not None
            assert own._host is not None
            newest(own._host).session.reauthenticate(token)
            await matrix.world.clock.advance(1)
            closed = matrix.world.wire.ends[-1].closed
            assert (None if closed is None else closed.code) == code, token


# Garbage and floods.

GARBAGE: Final = st.one_of(
    st.text("abcXYZ019-_=.+/ \t,;\"'{}\x7f", max_size=60),
    st.lists(st.text("abcXYZ019-_", max_size=12), min_size=1, max_size=5).map(".".join),
    st.dictionaries(
        st.sampled_from(("alg", "kid", "crit", "typ", "jwk")),
        st.none() | st.integers() | st.text("HS256none", max_size=5) | st.lists(st.integers()),
    ).map(lambda header: f"{part(header)}.{part({'tenant': 'acme'})}.AAAA"),
    st.binary(max_size=20).map(lambda data: f"{part(data)}.{part(data)}.{part(data)}"),
)


# Each example is a gateway of its own.
@hypothesis.settings(max_examples=20)
@given(garbage=st.lists(GARBAGE, min_size=30, max_size=30))
def test_garbage_is_refused(garbage: list[str]) -> None:
    import asyncio

    async def tried() -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            async with open_matrix(monkeypatch) as matrix:
                for token in garbage:
                    answer = await matrix.get(CARDS[0], token)
                    assert answer.status == 401, (token, answer.body)

    asyncio.run(tried())


async def test_a_flood_of_wrong_tokens_is_slowed_down(matrix: Matrix) -> None:
    async def status(token: str, address: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        request = Http(method="GET", path=CARDS[0], headers=headers)
        return (await matrix.send(request, address=address)).status

    wrong = [client(secret=SECRETS["other"], jti=f"wrong-{number}") for number in range(40)]
    found = [await status(token, "203.0.113.9") for token in wrong]
    assert found == [401] * 30 + [429] * 10
    # Nobody else is kept out, and neither is who has a right token at the same address.
    assert await status(wrong[0], "203.0.113.10") == 401
    for token in (client(), client(sub="new-here"), KEY.format("granted")):
        assert await status(token, "203.0.113.9") == 200
    assert await status(host(), "203.0.113.9") == 403
    headers = {"authorization": f"Bearer {wrong[0]}"}
    refused = await matrix.send(
        Http(method="POST", path=f"{AGENT_PATH}{CONNECTIONS_PATH}", headers=headers),
        address="203.0.113.9",
    )
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) <= 2
    await matrix.world.clock.advance(2)
    assert await status(wrong[0], "203.0.113.9") == 401
    assert await status(wrong[0], "203.0.113.9") == 429
