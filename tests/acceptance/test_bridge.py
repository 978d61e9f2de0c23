"""The gateway in front of real agents: every client, every upstream, streamed and not."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from a2a.types import a2a_pb2 as a2a
from joserfc.jwk import OKPKey
from tests.acceptance.conftest import SPOKEN, Make, eventually
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.remote import ROOT, free_port, sdk_server, served
from tests.acceptance.sdk import Peer, connect, text_of
from tests.acceptance.test_js_sdk import FOLDER, INSTALLED

from trunkline.remote import Target, signers
from trunkline.remote import connect as connect_remote

SDK03 = ROOT / "tests" / "acceptance" / "sdk03"
SDK03_PYTHON = SDK03 / ".venv" / "bin" / "python"

UPSTREAMS = {
    "sdk": (sdk_server(), 'a2a_version = "1.0", transports = ["HTTP+JSON"]'),
    "sdk03": ((str(SDK03_PYTHON), str(SDK03 / "server.py"), "--port"), ""),
    "js": (("node", str(FOLDER / "server.mjs"), "--port"), ""),
    "messages": ((sys.executable, str(ROOT / "examples" / "a2a" / "weak_agent.py"), "--port"), ""),
}
MISSING = {
    "sdk03": None if SDK03_PYTHON.exists() else "a2a-sdk 0.3 is not installed: ./check peers",
    "js": None if INSTALLED.exists() else "@a2a-js/sdk is not installed: ./check javascript",
}
HERE = [name for name in UPSTREAMS if not MISSING.get(name)]
# Those with tasks of their own.
WITH_TASKS = [name for name in ("sdk", "sdk03", "js") if name in HERE]


def agent_table(name: str, url: str, options: str = "", more: str = "") -> str:
    options = f", {options}" if options else ""
    return f'[agents."up/{name}"]\nbackend = {{ kind = "a2a", url = "{url}"{options} }}\n{more}\n'


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """All of them, started once and at the same time."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        started = [stack.enter_context(started_soon(pool, *UPSTREAMS[name][0])) for name in HERE]
        yield {name: url() for name, url in zip(HERE, started, strict=True)}


@contextmanager
def started_soon(pool: ThreadPoolExecutor, *command: str) -> Iterator[Callable[[], str]]:
    server = served(*command)
    url = pool.submit(server.__enter__)
    try:
        yield url.result
    finally:
        if url.exception() is None:
            server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def bridge(gateways: Make, urls: dict[str, str]) -> Gateway:
    """One gateway in front of all of them, and in front of itself."""
    tables = [agent_table(name, urls[name], UPSTREAMS[name][1]) for name in HERE]
    port = free_port()
    own = f"http://127.0.0.1:{port}/api/a2a/v1/agents/test/scripted"
    tables.append('[agents."test/scripted"]\nname = "Scripted"\nbackend = {kind = "scripted"}\n')
    tables.append(agent_table("itself", own, 'transports = ["HTTP+JSON"]'))
    return gateways(agents="\n".join(tables)).start("--port", str(port))


@pytest.fixture(params=SPOKEN, ids=["-".join(spoken) for spoken in SPOKEN])
def spoken(request: pytest.FixtureRequest) -> tuple[str, str]:
    way: tuple[str, str] = request.param
    return way


@pytest.fixture(params=UPSTREAMS)
def upstream(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if reason := MISSING.get(name):
        pytest.skip(reason)
    return name


@pytest.fixture
async def client(bridge: Gateway, spoken: tuple[str, str], upstream: str) -> AsyncIterator[Peer]:
    async with connect(bridge, *spoken, agent=f"up/{upstream}") as peer:
        yield peer
        assert peer.spoken() <= {spoken}


def numbers(count: int) -> str:
    return "".join(f"{number} " for number in range(count))


def expected(upstream: str, count: int) -> str:
    # One that answers with a message alone says back what it was told.
    return f"stream {count}" if upstream == "messages" else numbers(count)


async def test_bridge_sends(client: Peer, upstream: str) -> None:
    task = await client.send("stream 5")
    assert task.status.state == a2a.TASK_STATE_COMPLETED
    assert text_of(task) == expected(upstream, 5)
    # Weak as it may be, its tasks are kept here.
    assert text_of(await client.get(task.id)) == expected(upstream, 5)


async def test_bridge_streams(client: Peer, upstream: str) -> None:
    events = [event async for event in client.stream("stream 5")]
    assert events[0].HasField("task")
    assert events[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED
    chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
    text = ""
    for chunk in chunks:
        piece = "".join(part.text for part in chunk.artifact.parts)
        text = text + piece if chunk.append else piece
    assert text == expected(upstream, 5)
    if upstream.startswith("sdk"):
        assert len(chunks) == 5


NAMES = {"sdk": "SDK", "sdk03": "SDK 0.3", "js": "JavaScript", "messages": "Parrot"}


async def test_the_card_is_theirs_at_our_addresses(bridge: Gateway, upstream: str) -> None:
    url = f"{bridge.agent_url(f'up/{upstream}')}/agent-card.json"
    async with http_client() as http:

        async def is_known() -> bool:
            return bool((await http.get(url)).json()["name"] == NAMES[upstream])

        await eventually(is_known)
        card = (await http.get(url)).json()
    assert {each["url"].startswith(bridge.url) for each in card["supportedInterfaces"]} == {True}
    assert card["capabilities"]["streaming"] is True


async def test_the_card_is_signed_by_us(make: Make, urls: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "card.pem").write_bytes(OKPKey.generate_key("Ed25519").as_pem(private=True))
    signing = f'[server]\ncard_key_path = "{tmp_path / "card.pem"}"\n'
    gateway = make(signing, agents=agent_table("sdk", urls["sdk"])).start()
    async with http_client() as http:
        jwks = (await http.get(f"{gateway.url}/.well-known/jwks.json")).text

        async def is_known() -> bool:
            card = (await http.get(f"{gateway.agent_url('up/sdk')}/agent-card.json")).json()
            return bool(card["name"] == NAMES["sdk"])

        await eventually(is_known)
    target = Target(url=gateway.agent_url("up/sdk"), card_keys=(jwks,), require_signature=True)
    async with connect_remote(target) as agent:
        card = await agent.card()
    # It was learnt after the start, and signed as it is shown.
    assert (card.name, len(signers(card))) == (NAMES["sdk"], 1)


async def test_parts_of_every_kind_come_through(bridge: Gateway, spoken: tuple[str, str]) -> None:
    script = (
        "artifact text note words\nartifact file dot.png image/png pixels\n"
        'artifact url page text/html https://example.com/page\nartifact data {"n": 1.5}\nfinal ok'
    )
    async with connect(bridge, *spoken, agent="up/itself") as peer:
        task = await peer.send(script)
    async with connect(bridge, *spoken, agent="test/scripted") as peer:
        theirs = await peer.send(script)
    assert {artifact.artifact_id for artifact in task.artifacts} >= {"note", "dot.png", "page"}
    assert list(task.artifacts) == list(theirs.artifacts)
    assert task.status.message.parts == theirs.status.message.parts


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_questions_are_answered_by_the_caller(bridge: Gateway, name: str) -> None:
    async with connect(bridge, "jsonrpc", "1.0", agent=f"up/{name}") as peer:
        asked = await peer.send("ask")
        assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED
        ended = await peer.send("the blue one", task_id=asked.id)
        assert ended.id == asked.id
        assert (ended.status.state, text_of(ended)) == (a2a.TASK_STATE_COMPLETED, "the blue one")


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_a_failure_is_told_in_the_words_of_the_agent(bridge: Gateway, name: str) -> None:
    async with connect(bridge, "jsonrpc", "1.0", agent=f"up/{name}") as peer:
        failed = await peer.send("fail")
        assert failed.status.state == a2a.TASK_STATE_FAILED
        assert failed.status.message.parts[0].text == "out of paper"


@pytest.mark.parametrize("name", WITH_TASKS)
async def test_cancel_reaches_the_agent(bridge: Gateway, name: str) -> None:
    async with connect(bridge, "jsonrpc", "1.0", agent=f"up/{name}") as peer:
        task = await peer.send("hang", return_immediately=True)

        async def works() -> bool:
            return bool((await peer.get(task.id)).status.state == a2a.TASK_STATE_WORKING)

        await eventually(works)
        ended = await peer.cancel(task.id)
        assert ended.status.state == a2a.TASK_STATE_CANCELED
        assert "did not stop" not in str(ended.status)


@pytest.mark.parametrize("name", [name for name in ("sdk", "sdk03") if name in HERE])
async def test_a_killed_gateway_picks_up_where_the_agent_is(
    make: Make, urls: dict[str, str], name: str
) -> None:
    gateway = make(agents=agent_table(name, urls[name], UPSTREAMS[name][1])).start()
    async with connect(gateway, "jsonrpc", "1.0") as peer:
        task = await peer.send("stream 600", return_immediately=True)

        async def has_begun() -> bool:
            return len(text_of(await peer.get(task.id))) > 50

        await eventually(has_begun)
    gateway.kill()
    gateway.start()
    async with connect(gateway, "jsonrpc", "1.0") as peer:
        ended = await until_over(peer, task.id)
    assert (ended.status.state, text_of(ended)) == (a2a.TASK_STATE_COMPLETED, numbers(600))


async def test_a_stopped_gateway_lets_the_agent_go_on(make: Make, urls: dict[str, str]) -> None:
    table = agent_table("sdk", urls["sdk"], UPSTREAMS["sdk"][1])
    gateway = make("[server]\ndrain_s = 0.1", agents=table).start()
    async with connect(gateway, "jsonrpc", "1.0") as peer:
        task = await peer.send("stream 600", return_immediately=True)

        async def has_begun() -> bool:
            return len(text_of(await peer.get(task.id))) > 50

        await eventually(has_begun)
    assert gateway.stop() == 0
    gateway.start()
    async with connect(gateway, "rest", "0.3") as peer:
        ended = await until_over(peer, task.id)
    assert (ended.status.state, text_of(ended)) == (a2a.TASK_STATE_COMPLETED, numbers(600))


async def test_an_agent_that_dies_in_mid_turn_fails_the_task_alone(make: Make) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(served(*UPSTREAMS["sdk"][0]))
        tables = agent_table("sdk", url, "retry_s = 0.5") + (
            '[agents."test/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'
        )
        gateway = make(agents=tables).start()
        async with connect(gateway, "jsonrpc", "1.0", agent="up/sdk") as peer:
            task = await peer.send("hang", return_immediately=True)

            async def works() -> bool:
                return bool((await peer.get(task.id)).status.state == a2a.TASK_STATE_WORKING)

            await eventually(works)
            await asyncio.sleep(0.3)
            stack.close()
            ended = await until_over(peer, task.id)
            assert ended.status.state == a2a.TASK_STATE_FAILED
            assert "behind the gateway" in ended.status.message.parts[0].text
        async with connect(gateway, "jsonrpc", "1.0", agent="test/echo") as peer:
            assert text_of(await peer.send("still here")) == "still here"


async def until_over(peer: Peer, task_id: str) -> a2a.Task:
    async def is_over() -> bool:
        return (await peer.get(task_id)).status.state in (
            a2a.TASK_STATE_COMPLETED,
            a2a.TASK_STATE_FAILED,
        )

    await eventually(is_over)
    return await peer.get(task_id)
