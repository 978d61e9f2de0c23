"""Who may see and do what (protocol section 13)."""

import logging

import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import refused
from tests.bindings.clients import OPERATIONS, Client, Refused, message
from tests.bindings.test_operations import PARAMS
from tests.bindings.world import KEYS, World, open_world


@pytest.fixture
def bob(world: World, dialect: str) -> Client:
    return world.client(dialect, "bob")


async def refusal(client: Client, operation: str, params: dict[str, object]) -> Refused:
    answer = await client.http.send(client.request(operation, params))
    with pytest.raises(Refused) as caught:
        client.body_of(answer)
    return caught.value


@pytest.mark.parametrize("operation", ["GetTask", "CancelTask", "SubscribeToTask"])
async def test_a_foreign_task_is_an_unknown_task(
    client: Client, bob: Client, operation: str
) -> None:
    task = await client.run("ask which?")
    foreign = await refusal(bob, operation, {"id": task["id"]})
    unknown = await refusal(bob, operation, {"id": "made-up"})
    assert foreign.reason == "TASK_NOT_FOUND"
    # Not a byte differs but for the id.
    assert foreign.answer.status == unknown.answer.status
    assert foreign.answer.body == unknown.answer.body.replace(b"made-up", task["id"].encode())
    assert await client.get(task["id"]) == task


@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_a_message_to_a_foreign_task_is_one_to_an_unknown_task(
    client: Client, bob: Client, operation: str
) -> None:
    task = await client.run("ask which?")
    foreign = await refusal(bob, operation, {"message": message("say hi", task=task["id"])})
    unknown = await refusal(bob, operation, {"message": message("say hi", task="made-up")})
    assert foreign.reason == "TASK_NOT_FOUND"
    assert foreign.answer.body == unknown.answer.body.replace(b"made-up", task["id"].encode())
    assert await client.get(task["id"]) == task


async def test_a_foreign_ended_task_does_not_show_that_it_ended(
    client: Client, bob: Client
) -> None:
    task = await client.run("say done")
    with refused("TASK_NOT_FOUND"):
        await bob.cancel(task["id"])
    with refused("TASK_NOT_FOUND"):
        await bob.send(message("say hi", task=task["id"]))
    with refused("TASK_NOT_FOUND"):
        async with bob.subscribe(task["id"]):
            pass


async def test_a_list_holds_the_tasks_of_the_caller_alone(client: Client, bob: Client) -> None:
    mine = await client.run(message("say hi", context="ours"))
    his = await bob.run(message("say hi", context="ours"))
    for filters in ({}, {"contextId": "ours"}, {"status": "TASK_STATE_COMPLETED"}):
        page = await client.list(**filters)
        assert [task["id"] for task in page["tasks"]] == [mine["id"]]
        assert page["totalSize"] == 1
        assert [task["id"] for task in (await bob.list(**filters))["tasks"]] == [his["id"]]


async def test_a_page_token_of_somebody_else_shows_nothing_of_theirs(
    client: Client, bob: Client
) -> None:
    for _ in range(3):
        await client.run("say hi")
    token = (await client.list(pageSize=1))["nextPageToken"]
    page = await bob.list(pageSize=1, pageToken=token)
    assert page["tasks"] == []


async def test_one_context_id_of_two_callers_is_two_contexts(
    client: Client, bob: Client, world: World
) -> None:
    await client.run(message("say secret of alice", context="ours"))
    await bob.run(message("show history", context="ours"))
    turn = world.agent.turns[-1]
    assert turn.principal == "bob"
    assert "secret" not in str(turn.history)


async def test_one_context_id_of_two_callers_is_two_queues(
    client: Client, bob: Client, world: World
) -> None:
    await client.run(message("wait gate", context="ours"), returnImmediately=True)
    await world.agent.gates.reached("gate")
    # It would wait for ever in a queue with the other.
    task = await bob.run(message("say hi", context="ours"))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_foreign_reference_tasks_reveal_nothing(client: Client, bob: Client) -> None:
    task = await client.run("say secret")
    answers = [
        await bob.run(message("show artifacts", referenceTaskIds=[task_id]))
        for task_id in (task["id"], "made-up")
    ]
    assert [answer["status"]["state"] for answer in answers] == ["TASK_STATE_COMPLETED"] * 2
    assert "secret" not in str(answers)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_operation_needs_a_key(world: World, dialect: str, operation: str) -> None:
    for key in ("", "not-a-key-of-anybody"):
        client = world.client(dialect, key)
        params = PARAMS.get(operation, {"id": "made-up"})
        answer = await client.http.send(client.request(operation, params))
        assert answer.status == 401
        # RFC 6750, 3.1: only a credential that was stated can be wrong.
        code = ', error="invalid_token"' if key else ""
        assert answer.headers["www-authenticate"] == f'Bearer realm="trunkline"{code}'
        with refused("UNAUTHENTICATED"):
            client.body_of(answer)
    assert not world.agent.turns


async def test_who_has_no_key_learns_nothing_of_the_request(world: World, dialect: str) -> None:
    client = world.client(dialect, "")
    request = client.request("SendMessage", {"message": message("say hi")})
    request.body = b"{ this is no JSON"
    request.headers["content-type"] = "text/plain"
    assert (await client.http.send(request)).status == 401


@pytest.mark.parametrize(
    "header",
    [
        {"authorization": "Basic YWxpY2U6eA=="},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Token {KEYS['alice']}"},
        {"authorization": f"Bearer {KEYS['alice']}x"},
        {"authorization": KEYS["alice"]},
        {"x-api-key": ""},
        {"x-api-key": "alice"},
    ],
    ids=str,
)
async def test_what_is_no_key_is_refused(
    world: World, dialect: str, header: dict[str, str]
) -> None:
    client = world.client(dialect, "", headers=header)
    with refused("UNAUTHENTICATED"):
        await client.list()


async def test_an_answer_never_holds_the_key(world: World, dialect: str) -> None:
    client = world.client(dialect, "a-wrong-key-that-is-secret")
    answer = await client.http.send(client.request("ListTasks", {}))
    assert b"secret" not in answer.body


async def test_callers_without_a_key_are_one_principal_on_loopback(dialect: str) -> None:
    async with open_world(anonymous="loopback") as world:
        anonymous, alice = world.client(dialect, ""), world.client(dialect)
        task = await anonymous.run("say hi")
        assert await anonymous.get(task["id"]) == task
        with refused("TASK_NOT_FOUND"):
            await alice.get(task["id"])
        # A wrong key is not as good as none.
        with refused("UNAUTHENTICATED"):
            await world.client(dialect, "not-a-key-of-anybody").list()


async def test_a_web_page_cannot_use_the_loopback_address(dialect: str) -> None:
    async with open_world(anonymous="loopback") as world:
        client = world.client(dialect, "", headers={"host": "evil.example"})
        with refused("PERMISSION_DENIED"):
            await client.list()


@pytest.mark.parametrize(
    "sign", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}]
)
async def test_a_page_of_another_site_changes_nothing(dialect: str, sign: dict[str, str]) -> None:
    async with open_world(anonymous="loopback") as world:
        own = world.client(dialect, "")
        task = await own.run("ask which")
        foreign = world.client(dialect, "", headers=sign)
        with refused("PERMISSION_DENIED"):
            await foreign.run("say hi")
        with refused("PERMISSION_DENIED"):
            await foreign.cancel(task["id"])
        assert (await own.get(task["id"]))["status"] == task["status"]
        page = world.client(
            dialect, "", headers={"origin": "http://localhost", "host": "localhost"}
        )
        assert (await page.cancel(task["id"]))["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_page_of_another_site_cannot_cancel_by_an_empty_post() -> None:
    async with open_world(anonymous="loopback") as world:
        task = await world.client("rest-1.0", "").run("ask which")
        answer = await world.http.send(
            Http(
                method="POST",
                path=f"/a2a/rest/tasks/{task['id']}:cancel",
                headers={"host": "localhost:8642", "origin": "https://evil.example"},
            )
        )
        assert answer.status == 403
        assert "Origin" in answer.json()["error"]["message"]


async def test_a_key_is_good_from_any_page(dialect: str, world: World) -> None:
    page = world.client(dialect, headers={"origin": "https://app.example"})
    await page.run("say hi")


async def test_the_figures_need_a_key_too(world: World) -> None:
    request = Http(method="GET", path="/metrics")
    assert (await world.http.send(request)).status == 401
    request.headers["authorization"] = f"Bearer {KEYS['alice']}"
    assert (await world.http.send(request)).status == 200


async def test_the_agent_knows_who_asks_and_not_by_what_key(client: Client, world: World) -> None:
    await client.run("say hi")
    turn = world.agent.turns[-1]
    assert turn.principal == "alice"
    assert KEYS["alice"] not in str(turn)


async def test_the_log_names_the_principal_and_never_the_key(
    dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world(server={"log_requests": True}) as world:
        with caplog.at_level(logging.INFO, "trunkline.server"):
            await world.client(dialect).run("say hi")
            with refused("UNAUTHENTICATED"):
                await world.client(dialect, "a-wrong-key-that-is-secret").list()
    lines = [record.__dict__ for record in caplog.records if record.message == "request"]
    assert [line["principal"] for line in lines] == ["alice", ""]
    assert KEYS["alice"] not in str(lines)
    assert "secret" not in str(lines)
