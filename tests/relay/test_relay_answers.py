"""Requests that the relay answers itself, by the bindings of the server."""

from typing import Any, Never

import pytest
from tests.bindings.asgi import Asgi, Http
from tests.bindings.cases import refused
from tests.bindings.clients import CLIENTS, Address, Client
from tests.relay.gateways import PATH, RELAY_URL, relay_settings

from trunkline.app.gateway import build
from trunkline.app.relay.answers import RelayAnswers
from trunkline.background import BackgroundTasks
from trunkline.model.calls import Caller, GetTaskRequest
from trunkline.model.card import AgentCapabilities, AgentCard, AgentExtension
from trunkline.model.errors import TaskNotFound
from trunkline.model.events import Entry
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Task, TaskState, TaskStatus
from trunkline.relay.admission import Admission
from trunkline.relay.relay import Relay, RelaySettings
from trunkline.relay.requests import RelayedRequest, RelayedRequests
from trunkline.runtime.fanout import Subscription
from trunkline.runtime.service import ListAnswer, TaskAnswer
from trunkline.server.endpoint import Limits
from trunkline.testing import FakeClock

ALICE = Principal(id="alice", grants=EVERYTHING)
CARD = AgentCard(
    name="Helper",
    description="",
    version="1",
    supported_interfaces=(),
    capabilities=AgentCapabilities(extensions=(AgentExtension(uri="https://example.com/x"),)),
    default_input_modes=(),
    default_output_modes=(),
    skills=(),
)


def task(id: str) -> Task:
    return Task(id=id, context_id="c", status=TaskStatus(state=TaskState.SUBMITTED))


class Answering:
    """Operations that remember what they were called with."""

    large_values: Any = None

    def __init__(self) -> None:
        self.calls: list[tuple[str, Caller, Any]] = []

    async def send(self, agent: Any, caller: Caller, request: Any) -> TaskAnswer:
        self.calls.append((agent.handle, caller, request))
        return TaskAnswer(Entry.of(1, task("sent")).body)

    async def stream(
        self, agent: Any, caller: Caller, request: Any, *, is_whole: bool = False
    ) -> Subscription:
        self.calls.append((agent.handle, caller, request))
        reader = Subscription(closes_on=frozenset(), limit=10)
        reader.finish(Entry.of(1, task("streamed")))
        return reader

    async def get(self, agent: Any, caller: Caller, request: GetTaskRequest) -> bytes:
        self.calls.append((agent.handle, caller, request))
        if request.id == "absent":
            raise TaskNotFound(request.id)
        return Entry.of(1, task(request.id)).body

    async def list(self, agent: Any, caller: Caller, request: Any) -> ListAnswer:
        return ListAnswer((Entry.of(1, task("listed")).body,), "", 50, 1)

    async def cancel(self, agent: Any, caller: Caller, request: Any) -> Never:
        raise RuntimeError("a fault of the relay")

    async def subscribe(self, agent: Any, caller: Caller, request: Any, **options: Any) -> Never:
        raise TaskNotFound(request.id)


class Here:
    """Answers every request while the agent is away."""

    def __init__(
        self, answers: RelayAnswers, operations: Answering, card: AgentCard | None
    ) -> None:
        self.answers, self.operations, self.card = answers, operations, card

    def concerns(self, agent: str) -> bool:
        return False

    async def returned(self, agent: str) -> bool:
        return False

    async def answer(self, request: RelayedRequest, *, is_away: bool) -> bool:
        endpoint = self.answers.endpoint(request.address.agent, self.operations, self.card)
        await self.answers.serve(request, endpoint)
        return True


@pytest.fixture
def operations() -> Answering:
    return Answering()


@pytest.fixture
def card() -> AgentCard | None:
    return CARD


@pytest.fixture
def http(operations: Answering, card: AgentCard | None) -> Asgi:
    clock = FakeClock()
    gateway = build(relay_settings(), base_url=RELAY_URL, clock=clock)
    answers = RelayAnswers(gateway.front, limits=Limits())

    async def nobody(headers: Any, address: str) -> Never:
        raise AssertionError

    async def alice(scope: Any, receive: Any) -> Principal:
        return ALICE

    requests = RelayedRequests(
        Relay(RelaySettings(), admission=Admission(nobody, clock=clock), clock=clock),
        identify=alice,
        tasks=BackgroundTasks("test"),
        max_body_bytes=10_000_000,
        at_relay=Here(answers, operations, card),
    )
    return Asgi(requests)


@pytest.fixture(params=[*CLIENTS])
def client(request: pytest.FixtureRequest, http: Asgi) -> Client:
    name: str = request.param
    return CLIENTS[name](http, key="", tenant="", address=Address(jsonrpc=PATH, rest=PATH))


async def test_every_binding_and_version_is_answered(client: Client, operations: Answering) -> None:
    assert (await client.send("hello"))["task"]["id"] == "sent"
    assert (await client.get("t-1"))["id"] == "t-1"
    assert [each["id"] for each in (await client.list())["tasks"]] == ["listed"]
    async with client.stream("hello") as stream:
        (event,) = await stream.rest()
    assert (event.id, event.value["id"]) == (1, "streamed")
    assert {handle for handle, _, _ in operations.calls} == {"acme/scripted"}
    assert {caller.principal.id for _, caller, _ in operations.calls} == {"alice"}


async def test_errors_have_the_form_of_the_binding(client: Client) -> None:
    with refused("TASK_NOT_FOUND"):
        await client.get("absent")


async def test_a_fault_of_the_relay_tells_nothing(http: Asgi) -> None:
    headers = {"content-type": "application/json"}
    answer = await http.send(Http(path=f"{PATH}/tasks/t:cancel", body=b"{}", headers=headers))
    assert answer.status == 500
    assert b"a fault of the relay" not in answer.body


async def test_extensions_are_those_of_the_card(http: Asgi, operations: Answering) -> None:
    wanted = {
        "a2a-version": "1.0",
        "a2a-extensions": "https://example.com/x, https://example.com/y",
    }
    answer = await http.send(Http(method="GET", path=f"{PATH}/tasks/t", headers=wanted))
    assert answer.headers["a2a-extensions"] == "https://example.com/x"


@pytest.mark.parametrize("card", [None])
async def test_an_agent_without_a_known_card_is_served(http: Asgi) -> None:
    answer = await http.send(Http(method="GET", path=f"{PATH}/tasks/t"))
    assert answer.status == 200
