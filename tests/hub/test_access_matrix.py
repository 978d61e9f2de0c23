"""Who may do what: every operation for every kind of caller, on every binding and over the hub API.

What a caller may not know of is answered like what does not exist, byte for byte.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from msgspec import Struct
from tests.bindings.asgi import Answer, Http
from tests.bindings.clients import CLIENTS, OPERATIONS, Address, Client
from tests.bindings.test_operations import PARAMS
from tests.hub.registry_world import CARD, HubWorld, hub_world

from trunkline.hub.tokens import Tokens
from trunkline.model.principal import Grant

CALLERS: Final = ("owner", "granted", "other", "anonymous", "revoked")
# The version and the shape of each answer: allowed, a missing credential, or an unknown agent.
ALLOWED, UNAUTHENTICATED, UNKNOWN = "allowed", "unauthenticated", "unknown"
# Handles of the same length, so that answers may differ in nothing else.
AGENTS: Final = {"public": "acme/pub", "unlisted": "acme/unl", "private": "acme/pri"}
DRAFT: Final = "acme/dra"
NOTHING: Final = "acme/non"
HUB_STYLE: Final = "acme/hub"


def expected(visibility: str, caller: str) -> str:
    if caller in ("anonymous", "revoked"):
        return UNKNOWN if visibility == "private" else UNAUTHENTICATED
    return UNKNOWN if visibility == "private" and caller == "other" else ALLOWED


class Matrix(Struct):
    world: HubWorld
    # The token of each caller; empty without a credential.
    tokens: dict[str, str]
    # The ids of the agents, by their handles.
    ids: dict[str, str]

    def client(self, dialect: str, caller: str, handle: str) -> Client:
        path = f"/api/a2a/v1/agents/{handle}"
        address = Address(jsonrpc=path, rest=path)
        return CLIENTS[dialect](self.world.http, key=self.tokens[caller], address=address)

    async def ask(self, client: Client, operation: str, params: Any = None) -> Answer:
        params = params or PARAMS.get(operation, {"id": "made-up"})
        return await self.world.http.send(client.request(operation, params))


async def token(tokens: Tokens, name: str, **rights: Any) -> str:
    issued = await tokens.issue(kind="key", name=name, principal=f"token:{name}", **rights)
    return issued.token


@asynccontextmanager
async def open_matrix() -> AsyncIterator[Matrix]:
    async with hub_world() as world:
        ids = {}
        for visibility, handle in AGENTS.items():
            row = await world.create(slug=handle.split("/")[1], visibility=visibility)
            ids[handle] = row["id"]
        ids[DRAFT] = (await world.create(slug="dra", status="draft"))["id"]
        ids[HUB_STYLE] = (await world.create(slug="hub", profile="hub"))["id"]
        assert world.gateway.hub is not None
        tokens = world.gateway.hub.tokens
        scopes = ("call", "admin")
        granted = tuple(Grant(handle) for handle in (*AGENTS.values(), DRAFT, NOTHING))
        revoked = await tokens.issue(
            kind="key", name="revoked", principal="token:revoked", grants=granted
        )
        await tokens.revoke(revoked.id)
        yield Matrix(
            world,
            {
                "owner": await token(tokens, "owner", roles=("owner:acme",), scopes=scopes),
                "granted": await token(tokens, "granted", grants=granted, scopes=scopes),
                "other": await token(tokens, "other", reaches_open=True, scopes=scopes),
                "anonymous": "",
                "revoked": revoked.token,
            },
            ids,
        )


def same(answer: Answer, other: Answer, *names: tuple[str, str]) -> bool:
    """Whether two answers are the same but for these names."""
    body = other.body
    for theirs, ours in names:
        body = body.replace(theirs.encode(), ours.encode())
    return (answer.status, answer.headers, answer.body) == (other.status, other.headers, body)


@pytest.mark.parametrize("dialect", CLIENTS)
@pytest.mark.parametrize("visibility", AGENTS)
async def test_every_operation_for_every_caller(dialect: str, visibility: str) -> None:
    async with open_matrix() as m:
        for caller in CALLERS:
            known = m.client(dialect, caller, AGENTS[visibility])
            nothing = m.client(dialect, caller, NOTHING)
            for operation in OPERATIONS:
                answer = await m.ask(known, operation)
                unknown = await m.ask(nothing, operation)
                assert b"ROUTE_NOT_FOUND" in unknown.body
                where = (caller, operation, answer.body)
                match expected(visibility, caller):
                    case "unknown":
                        assert same(answer, unknown, (NOTHING, AGENTS[visibility])), where
                    case "unauthenticated":
                        assert answer.status == 401, where
                        assert answer.headers["www-authenticate"].startswith("Bearer "), where
                    case _:
                        assert answer.status not in (401, 403), where
                        assert b"ROUTE_NOT_FOUND" not in answer.body, where


@pytest.mark.parametrize("dialect", CLIENTS)
async def test_a_draft_is_unknown_to_everyone_and_to_its_owner(dialect: str) -> None:
    async with open_matrix() as m:
        for caller in CALLERS:
            for operation in OPERATIONS:
                answer = await m.ask(m.client(dialect, caller, DRAFT), operation)
                unknown = await m.ask(m.client(dialect, caller, NOTHING), operation)
                assert same(answer, unknown, (NOTHING, DRAFT))


@pytest.mark.parametrize("dialect", CLIENTS)
async def test_a_foreign_task_is_an_unknown_task_for_every_operation(dialect: str) -> None:
    """Of another caller of the same agent, whatever rights it has there."""
    async with open_matrix() as m:
        handle = AGENTS["public"]
        task = await m.client(dialect, "granted", handle).run("hello")
        made_up = "0" * len(task["id"])
        for caller in ("owner", "other"):
            client = m.client(dialect, caller, handle)
            for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
                foreign = await m.ask(client, operation, {"id": task["id"]})
                unknown = await m.ask(client, operation, {"id": made_up})
                assert b"TASK_NOT_FOUND" in unknown.body or b"-32001" in unknown.body
                assert same(foreign, unknown, (made_up, task["id"]))
            listed = await client.list()
            assert listed["tasks"] == []


async def test_the_form_of_the_hub_has_the_same_doors() -> None:
    """Requests without a version, as clients of seed 003 send them."""
    async with open_matrix() as m:
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        for caller in CALLERS:
            headers = {"Content-Type": "application/json"}
            if m.tokens[caller]:
                headers["Authorization"] = f"Bearer {m.tokens[caller]}"
            body = {"jsonrpc": "2.0", "id": "1", "method": "SendMessage"}
            answer = await m.world.http.send(
                Http(
                    path=f"/api/a2a/v1/agents/{HUB_STYLE}",
                    headers=headers,
                    body=encoded(body | {"params": {"message": message}}),
                )
            )
            if caller in ("anonymous", "revoked"):
                assert answer.status == 401
            elif caller == "granted":
                # Its grants do not name this agent, and it reaches no open ones.
                assert b"may not call" in answer.body
            else:
                assert answer.json()["result"]["status"]["state"] == "COMPLETED"


async def test_the_card_of_every_agent_for_every_caller() -> None:
    async with open_matrix() as m:

        async def card(caller: str, handle: str) -> Answer:
            headers = {}
            if m.tokens[caller]:
                headers["Authorization"] = f"Bearer {m.tokens[caller]}"
            return await m.world.http.send(
                Http(method="GET", path=CARD.format(handle), headers=headers)
            )

        for caller in CALLERS:
            unknown = await card(caller, NOTHING)
            assert unknown.status == 404
            # Cards are public, also for a credential that has ended.
            for visibility in ("public", "unlisted"):
                assert (await card(caller, AGENTS[visibility])).status == 200
            private = await card(caller, AGENTS["private"])
            if caller in ("owner", "granted"):
                assert private.status == 200
            else:
                assert same(private, unknown, (NOTHING, AGENTS["private"]))
            assert same(await card(caller, DRAFT), unknown, (NOTHING, DRAFT))


# What each caller sees of an agent over the hub API: it manages it, it sees it, it is unknown, or
# the caller itself is.
API: Final = {
    "private": ("manages", "sees", "unknown", "unauthenticated", "unauthenticated"),
    "public": ("manages", "sees", "sees", "unauthenticated", "unauthenticated"),
    "draft": ("manages", "unknown", "unknown", "unauthenticated", "unauthenticated"),
}


@pytest.mark.parametrize("visibility", API)
async def test_the_hub_api_for_every_caller(visibility: str) -> None:
    handle = DRAFT if visibility == "draft" else AGENTS[visibility]
    async with open_matrix() as m:
        agent, nothing = m.ids[handle], "agt_" + "0" * 32
        for caller, access in zip(CALLERS, API[visibility], strict=True):
            by = m.tokens[caller]
            for method, tail, body in (
                ("PATCH", "", {"tagline": "new"}),
                ("GET", "/grants", None),
                ("GET", "/inbound", None),
                ("DELETE", "?version=99", None),
            ):
                path, _, query = tail.partition("?")
                answer = await m.world.call(
                    method, f"/agents/{agent}{path}", body, by=by, query=query
                )
                unknown = await m.world.call(
                    method, f"/agents/{nothing}{path}", body, by=by, query=query
                )
                where = (caller, method, tail, answer.body)
                match access:
                    case "manages":
                        assert answer.status in (200, 204, 409), where
                    case "sees":
                        # Grants are not even there for others than those who manage the agent.
                        assert answer.status == (404 if path == "/grants" else 403), where
                    case "unknown":
                        assert unknown.status == 404, where
                        assert same(answer, unknown, (nothing, agent)), where
                    case _:
                        assert answer.status == 401, where
            shown = await m.world.call("GET", f"/agents/{agent}", by=by)
            if caller == "revoked":
                assert shown.status == 401
            elif access in ("manages", "sees") or (caller, visibility) == ("anonymous", "public"):
                assert shown.json()["handle"] == handle
            else:
                hidden = await m.world.call("GET", f"/agents/{nothing}", by=by)
                assert same(shown, hidden, (nothing, agent))


async def test_lists_hold_what_the_caller_may_know() -> None:
    async with open_matrix() as m:
        seen = {}
        for caller in CALLERS:
            answer = await m.world.call("GET", "/agents", by=m.tokens[caller])
            if caller == "revoked":
                assert answer.status == 401
                continue
            seen[caller] = {item["handle"] for item in answer.json()["items"]}
        open_ones = {AGENTS["public"], HUB_STYLE}
        assert seen["anonymous"] == seen["other"] == open_ones
        assert seen["granted"] >= open_ones | {AGENTS["private"]}
        assert seen["owner"] == {*AGENTS.values(), DRAFT, HUB_STYLE}


def encoded(body: object) -> bytes:
    return json.dumps(body).encode()
