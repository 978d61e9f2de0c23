"""Our client library against real agents: the gateway, and a2a-sdk in both its versions."""

import gc
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.acceptance.conftest import ALICE_KEY, Make
from tests.acceptance.gateway import Gateway
from tests.acceptance.remote import (
    WAYS,
    answer_of,
    ask,
    collected,
    folded,
    sdk_server,
    served,
    state_of,
)
from tests.acceptance.test_js_sdk import FOLDER, INSTALLED

from trunkline.model.calls import (
    AuthenticationInfo,
    ListTasksRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.values import Message, Part, Task, TaskState
from trunkline.remote import (
    PeerRefused,
    PeerUnreachable,
    RemoteAgent,
    Target,
    connect,
    connect_sync,
)

IDS = ["-".join(way) for way in WAYS]


@pytest.fixture(scope="module")
def sdk() -> Iterator[str]:
    with served(*sdk_server()[:-1], "--push", "--port") as url:
        yield url


@pytest.fixture(params=WAYS, ids=IDS)
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    given: tuple[str, str] = request.param
    return given


def at(url: str, way: tuple[str, str]) -> Target:
    return Target(url=url, transports=(way[0],), version=way[1])


@pytest.fixture
async def ours(shared: Gateway, way: tuple[str, str]) -> AsyncIterator[RemoteAgent]:
    async with connect(at(shared.url, way)) as agent:
        yield agent


@pytest.fixture
async def theirs(sdk: str, way: tuple[str, str]) -> AsyncIterator[RemoteAgent]:
    async with connect(at(sdk, way)) as agent:
        yield agent


async def test_the_gateway_answers(ours: RemoteAgent) -> None:
    assert (await ours.card()).name == "Scripted"
    task = await ours.send(ask("say all is well"))
    assert isinstance(task, Task)
    assert task.status.state is TaskState.COMPLETED
    assert answer_of(task) == "all is well"
    assert answer_of(await ours.get(task.id)) == "all is well"
    assert (await ours.get(task.id, history_length=0)).history == ()


async def test_the_gateway_streams(ours: RemoteAgent) -> None:
    items = await collected(ours.stream(ask("stream 20")))
    assert isinstance(items[0], Task)
    assert folded(items) == "".join(f"{n} " for n in range(1, 21))
    assert state_of(items[-1]) is TaskState.COMPLETED


async def test_the_gateway_gives_parts_of_every_kind(ours: RemoteAgent) -> None:
    script = (
        "artifact text note words\nartifact file dot.png image/png pixels\n"
        'artifact url page text/html https://example.com/page\nartifact data {"n": 1.5}'
    )
    task = await ours.send(ask(script))
    assert isinstance(task, Task)
    parts = {artifact.artifact_id: artifact.parts[0] for artifact in task.artifacts}
    assert parts["note"] == Part(text="words")
    assert parts["dot.png"].raw == b"pixels"
    assert parts["dot.png"].media_type == "image/png"
    assert parts["page"].url == "https://example.com/page"
    assert parts["data"].data == {"n": 1.5}


async def test_a_question_is_answered(ours: RemoteAgent) -> None:
    items = await collected(ours.stream(ask("ask Which colour?")))
    assert state_of(items[-1]) is TaskState.INPUT_REQUIRED
    assert isinstance(items[0], Task)
    task = await ours.send(ask("say blue", task_id=items[0].id))
    assert isinstance(task, Task)
    assert task.id == items[0].id
    assert task.status.state is TaskState.COMPLETED


async def test_a_task_is_followed_and_canceled(ours: RemoteAgent) -> None:
    task = await ours.send(ask("hang", returns=True))
    assert isinstance(task, Task)
    items = []
    async for item in ours.subscribe(task.id):
        items.append(item)
        if len(items) == 1:
            assert (await ours.cancel(task.id)).status.state is TaskState.CANCELED
    assert isinstance(items[0], Task)
    assert state_of(items[-1]) is TaskState.CANCELED


async def test_tasks_are_listed(ours: RemoteAgent) -> None:
    task = await ours.send(ask("say listed"))
    assert isinstance(task, Task)
    page = await ours.list(ListTasksRequest(context_id=task.context_id, include_artifacts=True))
    assert [one.id for one in page.tasks] == [task.id]
    assert answer_of(page.tasks[0]) == "listed"
    assert page.total_size == 1


async def test_refusals_have_the_same_reason_everywhere(ours: RemoteAgent) -> None:
    with pytest.raises(PeerRefused) as unknown:
        await ours.get("no-such-task")
    assert (unknown.value.reason, unknown.value.code) == ("TASK_NOT_FOUND", -32001)
    task = await ours.send(ask("say done"))
    assert isinstance(task, Task)
    with pytest.raises(PeerRefused) as ended:
        await ours.cancel(task.id)
    assert ended.value.reason == "TASK_NOT_CANCELABLE"
    with pytest.raises(PeerRefused) as over:
        await collected(ours.subscribe(task.id))
    assert over.value.reason == "UNSUPPORTED_OPERATION"
    with pytest.raises(PeerRefused) as push:
        await ours.list_push_configs(task.id)
    assert push.value.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"


async def test_direct_answers_are_messages(shared: Gateway, way: tuple[str, str]) -> None:
    async with connect(at(shared.agent_url("test/greeter"), way)) as agent:
        answer = await agent.send(ask("Ada"))
        assert isinstance(answer, Message)
        assert answer_of(answer) == "Hello, Ada!"
        [streamed] = await collected(agent.stream(ask("Ada")))
        assert isinstance(streamed, Message)


async def test_an_agent_that_does_not_stream_answers_at_once(
    shared: Gateway, way: tuple[str, str]
) -> None:
    async with connect(at(shared.agent_url("test/whole"), way)) as agent:
        [task] = await collected(agent.stream(ask("in one piece")))
        assert isinstance(task, Task)
        assert answer_of(task) == "in one piece"


async def test_the_extended_card_is_for_those_it_knows(
    shared: Gateway, way: tuple[str, str]
) -> None:
    target = at(shared.agent_url("test/extended"), way)
    async with connect(target, token=ALICE_KEY) as agent:
        assert [skill.id for skill in (await agent.extended_card()).skills] == [
            "extended",
            "secret",
        ]
    async with connect(target) as stranger:
        with pytest.raises(PeerRefused) as refused:
            await stranger.extended_card()
        assert refused.value.status == 401


@pytest.mark.parametrize("way", WAYS[:2], ids=IDS[:2])
async def test_the_tenant_of_the_card_is_sent(shared: Gateway, way: tuple[str, str]) -> None:
    async with connect(at(shared.agent_url("test/tenants"), way)) as agent:
        task = await agent.send(ask("show tenant"))
    assert isinstance(task, Task)
    tenant = task.artifacts[0].parts[0].data
    assert tenant in ("acme", {"tenant": "acme"})


async def test_a_key_that_is_missing_is_refused_and_no_secret_is_told(make: Make) -> None:
    gateway = make('[auth]\nanonymous = "never"\n[auth.keys.a]\nkey = "right-key-of-alice"').start()
    async with connect(gateway.url, token="wrong-and-secret") as agent:
        with pytest.raises(PeerRefused) as refused:
            await agent.send(ask("hi"))
    assert refused.value.status == 401
    assert "wrong-and-secret" not in f"{refused.value!r} {refused.value.message}"
    async with connect(gateway.url, token="right-key-of-alice") as agent:
        assert isinstance(await agent.send(ask("say in")), Task)


async def test_a2a_sdk_answers(theirs: RemoteAgent) -> None:
    assert (await theirs.card()).name == "SDK"
    task = await theirs.send(ask("hello"))
    assert isinstance(task, Task)
    assert answer_of(task) == "hello"
    assert (await theirs.get(task.id)).status.state is TaskState.COMPLETED
    direct = await theirs.send(ask("direct"))
    assert isinstance(direct, Message)
    assert answer_of(direct) == "straight"


async def test_a2a_sdk_streams(theirs: RemoteAgent) -> None:
    items = await collected(theirs.stream(ask("stream 20")))
    assert isinstance(items[0], Task)
    assert folded(items) == "".join(f"{n} " for n in range(20))
    assert state_of(items[-1]) is TaskState.COMPLETED
    [message] = await collected(theirs.stream(ask("direct")))
    assert isinstance(message, Message)


async def test_a2a_sdk_asks(theirs: RemoteAgent) -> None:
    items = await collected(theirs.stream(ask("ask")))
    assert isinstance(items[0], Task)
    assert state_of(items[-1]) is TaskState.INPUT_REQUIRED
    task = await theirs.send(ask("ok", task_id=items[0].id, context_id=items[0].context_id))
    assert isinstance(task, Task)
    assert (task.id, task.status.state) == (items[0].id, TaskState.COMPLETED)


async def test_a2a_sdk_is_followed_and_canceled(theirs: RemoteAgent) -> None:
    task = await theirs.send(ask("hang", returns=True))
    assert isinstance(task, Task)
    items = []
    async for item in theirs.stream(ask("hang")):
        items.append(item)
        if state_of(item) is TaskState.WORKING:
            assert isinstance(items[0], Task)
            await theirs.cancel(items[0].id)
    assert state_of(items[-1]) is TaskState.CANCELED
    await theirs.cancel(task.id)


async def test_a2a_sdk_refuses(theirs: RemoteAgent) -> None:
    with pytest.raises(PeerRefused) as unknown:
        await theirs.get("no-such-task")
    assert unknown.value.reason == "TASK_NOT_FOUND"


async def test_a2a_sdk_takes_push_configurations(theirs: RemoteAgent) -> None:
    task = await theirs.send(ask("hang", returns=True))
    assert isinstance(task, Task)
    wanted = TaskPushNotificationConfig(
        task_id=task.id,
        id="mine",
        url="https://example.com/hook",
        token="seen-by-both",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="for-the-hook"),
    )
    made = await theirs.set_push_config(wanted)
    assert (made.id, made.task_id, made.url) == ("mine", task.id, wanted.url)
    assert await theirs.get_push_config(task.id, "mine") == made
    assert (made.token, made.authentication) == (wanted.token, wanted.authentication)
    assert await theirs.list_push_configs(task.id) == (made,)
    if theirs.target.version == "0.3" and theirs.target.transports == ("HTTP+JSON",):
        with pytest.raises(PeerRefused):
            # a2a-sdk has no path for it.
            await theirs.delete_push_config(task.id, "mine")
    else:
        await theirs.delete_push_config(task.id, "mine")
        assert await theirs.list_push_configs(task.id) == ()
    await theirs.cancel(task.id)


def test_a_script_needs_no_asyncio(shared: Gateway) -> None:
    with connect_sync(shared.url) as agent:
        assert agent.card().name == "Scripted"
        task = agent.send(ask("say hi"))
        assert isinstance(task, Task)
        assert agent.get(task.id).id == task.id
        assert folded(list(agent.stream(ask("stream 3")))) == "1 2 3 "
        for item in agent.stream(ask("stream 3 every 0.01")):
            assert isinstance(item, Task)
            break
        assert agent.list(ListTasksRequest(context_id=task.context_id)).total_size == 1


def test_a_script_may_leave_a_stream_behind(shared: Gateway) -> None:
    with connect_sync(shared.url) as agent:
        left = agent.stream(ask("stream 3 every 0.01"))
        also_left = agent.stream(ask("stream 3 every 0.01"))
        assert isinstance(next(left), Task)
        assert isinstance(next(also_left), Task)
    agent.close()
    for late in (lambda: next(left), agent.card):
        with pytest.raises(PeerUnreachable) as closed:
            late()
        assert closed.value.reason == "CLOSED"
    del also_left
    gc.collect()


@pytest.mark.skipif(
    not INSTALLED.exists(),
    reason="the packages of the JavaScript client are not installed: ./check javascript",
)
async def test_a2a_js_answers_and_streams() -> None:
    with served("node", str(FOLDER / "server.mjs"), "--port") as url:
        async with connect(url) as agent:
            assert (await agent.card()).name == "JavaScript"
            task = await agent.send(ask("hello"))
            assert isinstance(task, Task)
            assert answer_of(task) == "hello"
            assert (await agent.get(task.id)).status.state is TaskState.COMPLETED
            items = await collected(agent.stream(ask("stream 20")))
            assert folded(items) == "".join(f"{n} " for n in range(20))
            assert state_of(items[-1]) is TaskState.COMPLETED
            with pytest.raises(PeerRefused) as unknown:
                await agent.get("no-such-task")
            assert unknown.value.reason == "TASK_NOT_FOUND"
