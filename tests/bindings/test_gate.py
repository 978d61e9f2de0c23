"""Every way to start a turn passes the gate, once per turn.

A way is an operation on a binding, or a place in the code that calls the service. New operations,
method names and places are found in the tables and the source, so a new way fails here until it is
proved.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import in_memory, refused
from tests.bindings.clients import OPERATIONS, Client, message
from tests.bindings.shapes import Json
from tests.bindings.test_operations import PARAMS
from tests.bindings.world import HANDLE, KEYS, World, open_world
from tests.runtime.gates import RecordingGate
from tests.sockets.handlers import post
from tests.sockets.peer import serving

import trunkline
from trunkline.app.try_agent import Trial
from trunkline.model.calls import Operation, Refusal, SendMessageRequest
from trunkline.model.session import ReplyPayload
from trunkline.model.values import Message, Part, Role
from trunkline.ports.gate import Admission
from trunkline.protocol.operations import LEGACY_METHODS, METHODS
from trunkline.protocol.versions import Version
from trunkline.settings import StoreSettings

database = in_memory

STARTS_TURNS = {"SendMessage", "SendStreamingMessage"}
USED_UP = Refusal("budget_exhausted", "The budget of today is used up", retry_after_s=3600)


async def call(client: Client, operation: str, sent: Json, **configuration: Any) -> None:
    """Send a message by one of the two operations, and read the answer to its end."""
    if operation == "SendMessage":
        await client.send(sent, **configuration)
        return
    async with client.stream(sent, **configuration) as stream:
        await stream.rest()


def check_each_turn_passed_once(world: World, gate: RecordingGate, turns: int) -> None:
    assert len(world.agent.turns) == turns
    assert len(gate.admitted) == turns
    assert len(gate.recorded) == turns
    assert gate.is_balanced()


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_the_operations_that_start_turns_pass_the_gate(dialect: str, operation: str) -> None:
    """All operations are tried, so that a new one that starts turns is noticed."""
    assert list(OPERATIONS) == [str(each) for each in Operation]
    gate = RecordingGate()
    async with open_world(gate=gate) as world:
        client = world.client(dialect)
        asked = await client.run("ask which?")
        params = PARAMS.get(operation, {"id": asked["id"]})
        request = client.request(operation, params)
        if operation == "SubscribeToTask":
            async with client.subscribe(asked["id"]):
                pass
        else:
            await client.http.send(request)
        turns = 2 if operation in STARTS_TURNS else 1
        check_each_turn_passed_once(world, gate, turns)


@pytest.mark.parametrize("version", ["1.0", "0.3", "legacy"])
async def test_every_method_name_that_starts_turns_passes_the_gate(version: str) -> None:
    is_legacy = version == "legacy"
    names = LEGACY_METHODS if is_legacy else METHODS[Version(version)]
    sent = message("say hi")
    if version != "1.0":
        part = {"type" if is_legacy else "kind": "text", "text": "say hi"}
        sent = {"messageId": "m", "kind": "message", "role": "user", "parts": [part]}
    gate = RecordingGate()
    async with open_world(gate=gate, dialect="v0.3-legacy" if is_legacy else "auto") as world:
        turns = 0
        for name, operation in names.items():
            turns += operation in STARTS_TURNS
            await world.http.send(jsonrpc(name, sent, "" if is_legacy else version))
            check_each_turn_passed_once(world, gate, turns)
        assert turns >= len(STARTS_TURNS)


def jsonrpc(method: str, sent: Json, version: str = "") -> Http:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": sent}}
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEYS['alice']}"}
    if version:
        headers["a2a-version"] = version
    return Http(path="/a2a/jsonrpc", headers=headers, body=msgspec.json.encode(body))


@pytest.mark.parametrize("operation", sorted(STARTS_TURNS))
async def test_every_kind_of_message_passes_the_gate_once(dialect: str, operation: str) -> None:
    gate = RecordingGate()
    async with open_world(gate=gate) as world:
        client = world.client(dialect)
        await call(client, operation, message("say new"))
        await call(client, operation, message("say in a context", context="c"))
        asked = await client.run(message("ask which?"))
        await call(client, operation, message("say the answer", task=asked["id"]))
        check_each_turn_passed_once(world, gate, 4)
        keyed = world.client(dialect, headers={"idempotency-key": "k"})
        for _ in range(2):
            await call(keyed, operation, message("say once"))
        check_each_turn_passed_once(world, gate, 5)


@pytest.mark.parametrize("operation", sorted(STARTS_TURNS))
async def test_an_answer_without_a_task_passes_the_gate(dialect: str, operation: str) -> None:
    gate = RecordingGate()
    async with open_world(gate=gate, agent_style="hybrid") as world:
        await call(world.client(dialect), operation, message("reply hi"))
        check_each_turn_passed_once(world, gate, 1)


async def test_a_message_in_the_queue_passes_the_gate(dialect: str) -> None:
    gate = RecordingGate()
    async with open_world(gate=gate) as world:
        client = world.client(dialect)
        await client.run(message("wait a", context="c"), returnImmediately=True)
        await world.agent.gates.reached("a")
        await client.run(message("say hi", context="c"), returnImmediately=True)
        assert len(gate.admitted) == 2
        world.agent.gates.open("a")
        await client.run(message("say last", context="c"))
        check_each_turn_passed_once(world, gate, 3)


@pytest.mark.parametrize("operation", sorted(STARTS_TURNS))
async def test_a_refusal_of_the_gate_is_a_rejected_task(dialect: str, operation: str) -> None:
    gate = RecordingGate()
    gate.decision = USED_UP
    async with open_world(gate=gate) as world:
        client = world.client(dialect)
        await call(client, operation, message("say hi"))
        (task,) = (await client.list())["tasks"]
        assert task["status"]["state"] == "TASK_STATE_REJECTED"
        assert task["status"]["message"]["parts"] == [{"text": USED_UP.text}]
        assert task["status"]["message"]["metadata"]["reason"] == "budget_exhausted"
        assert not world.agent.turns


@pytest.mark.parametrize("operation", sorted(STARTS_TURNS))
async def test_a_refusal_of_the_gate_may_be_an_error(dialect: str, operation: str) -> None:
    gate = RecordingGate()
    gate.decision = USED_UP
    async with open_world(gate=gate, overflow="error") as world:
        client = world.client(dialect)
        answer = await client.http.send(client.request(operation, {"message": message("say hi")}))
        assert (answer.status, answer.headers["retry-after"]) == (429, "3600")
        with refused("TOO_MANY_REQUESTS") as caught:
            client.body_of(answer)
        assert caught.value.message == USED_UP.text
        assert not world.agent.turns


@pytest.mark.parametrize("operation", sorted(STARTS_TURNS))
async def test_a_refused_answer_leaves_the_question_open(dialect: str, operation: str) -> None:
    gate = RecordingGate()
    async with open_world(gate=gate) as world:
        client = world.client(dialect)
        asked = await client.run("ask which?")
        gate.decision = USED_UP
        with refused("TOO_MANY_REQUESTS"):
            await call(client, operation, message("say this", task=asked["id"]))
        assert await client.get(asked["id"]) == asked
        gate.decision = Admission()
        await call(client, operation, message("say this", task=asked["id"]))
        assert len(world.agent.turns) == 2


@pytest.mark.parametrize("operation", sorted(STARTS_TURNS))
async def test_a_gate_that_fails_asks_for_another_try(dialect: str, operation: str) -> None:
    gate = RecordingGate()
    gate.decision = RuntimeError("a secret of the gate")
    async with open_world(gate=gate) as world:
        client = world.client(dialect)
        answer = await client.http.send(client.request(operation, {"message": message("say hi")}))
        assert answer.status == 503
        with refused("UNAVAILABLE"):
            client.body_of(answer)
        assert b"secret" not in answer.body


async def test_our_own_server_passes_the_gate() -> None:
    """The other tests are behind an ASGI server."""
    gate = RecordingGate()
    request = jsonrpc("SendMessage", message("say hi"))
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    assert isinstance(request.body, bytes)
    async with (
        open_world(gate=gate) as world,
        serving(world.gateway.application.serve) as server,
    ):
        peer = await server.peer()
        peer.send(post(request.body, *lines, path=request.path))
        status, _, _ = await peer.response()
        assert status == 200
        check_each_turn_passed_once(world, gate, 1)


async def test_an_agent_on_trial_passes_the_gate() -> None:
    gate = RecordingGate()
    async with open_world(gate=gate) as world:
        trial = Trial(world.runtime.agents[HANDLE], world.runtime.service)
        sent = Message(message_id="m", role=Role.USER, parts=(Part(text="say hi"),))
        assert [event async for event in trial.send(SendMessageRequest(message=sent))]
        check_each_turn_passed_once(world, gate, 1)


async def test_agents_of_other_stores_and_later_ones_pass_the_gate(tmp_path: Path) -> None:
    gate = RecordingGate()
    apart = StoreSettings(kind="sqlite", path=str(tmp_path / "apart.db"), synchronous="normal")
    agents: dict[str, Json] = {HANDLE: {}, "test/apart": {"store": apart}}
    async with open_world(gate=gate, agents=agents) as world:
        table = {"name": "Late", "description": "Comes late", "backend": {"kind": "echo"}}
        await world.gateway.directory.publish("test/late", table)
        for agent in (*agents, "test/late"):
            await world.client("jsonrpc-1.0", agent=agent).run("say hi")
        assert [attempt.agent for attempt in gate.admitted] == [*agents, "test/late"]
        assert gate.is_balanced()


async def test_a_later_reply_of_an_agent_is_not_a_turn() -> None:
    gate = RecordingGate()
    async with open_world(gate=gate) as world:
        task = await world.client("jsonrpc-1.0").run("say hi")
        delivered = await world.gateway.channel.deliver_queued_reply(
            ReplyPayload(text="one more thing"), thread_id=task["id"]
        )
        assert delivered.ok
        check_each_turn_passed_once(world, gate, 1)


SOURCE = Path(trunkline.__file__).parent
# The doors to a turn, from the inside out, and the only modules that go through each. A new caller
# of the service is a new way: prove above that it passes the gate, then add it here.
DOORS = {
    ("backend", "start"): {"runtime/runs.py"},
    # Tasks that another gateway began pass it in tests/runtime/test_adoptions.py.
    ("runs", "enter"): {"runtime/intake.py", "runtime/follow_ups.py", "runtime/adoptions.py"},
    ("follow_ups", "accept"): {"runtime/intake.py"},
    # Runs that a restart left passed the gate before it.
    ("follow_ups", "requeue"): {"runtime/runtime.py"},
    # The inbox has the messages that another node received (tests/cluster/test_any_node.py).
    ("intake", "admit"): {"runtime/service.py", "runtime/inbox.py"},
    ("service", "send"): {"server/endpoint.py", "routing/answers.py", "routing/calls.py"},
    ("service", "stream"): {"server/endpoint.py", "app/try_agent.py"},
}


def doors_used() -> Iterator[tuple[tuple[str, str], str]]:
    """Each attribute in the source, such as `self.runs.enter`, with its module. The shipped test
    tools try a backend by itself, without a gateway."""
    for file in SOURCE.rglob("*.py"):
        if "testing" in file.relative_to(SOURCE).parts:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                yield (name.strip("_"), node.attr), file.relative_to(SOURCE).as_posix()


def test_nothing_goes_around_the_gate() -> None:
    used: dict[tuple[str, str], set[str]] = {door: set() for door in DOORS}
    for door, module in doors_used():
        if door in used:
            used[door].add(module)
    assert used == DOORS
