"""Tasks and cards in the form of the hub, value by value."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.calls import Operation, SendMessageRequest
from trunkline.model.card import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentProvider,
    AgentSkill,
)
from trunkline.model.errors import InvalidParams
from trunkline.model.events import Entry
from trunkline.model.values import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trunkline.protocol import cards
from trunkline.protocol.cards import Shape
from trunkline.protocol.dialects import dialects_for
from trunkline.protocol.hub import STATE_NAMES, HubCard, HubDialect
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version
from trunkline.settings.profiles import preset

HUB = HubDialect(reads_text_alone=True)
ASKED = Message(
    message_id="m1", context_id="m1", task_id="t", role=Role.USER, parts=(Part(text="why?"),)
)


def said(*parts: Part, **more: Any) -> Message:
    return Message(
        message_id="r.1", context_id="m1", task_id="t", role=Role.AGENT, parts=parts, **more
    )


def task(
    state: TaskState, message: Message | None = None, *, history: tuple[Message, ...] = (ASKED,)
) -> Task:
    status = TaskStatus(state=state, message=message, timestamp="2026-05-07T12:00:01.000Z")
    return Task(id="t", context_id="m1", status=status, history=history)


def shown(value: Task) -> Any:
    return json.loads(HUB.task(msgspec.json.encode(value)))


def test_h10_a_completed_task() -> None:
    answer = said(Part(text="because", metadata={"a": 1}), metadata={"usage": 7})
    assert shown(task(TaskState.COMPLETED, answer, history=(ASKED, answer))) == {
        "id": "t",
        "contextId": "m1",
        "status": {"state": "COMPLETED", "timestamp": "2026-05-07T12:00:01.000Z"},
        "history": [
            {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "why?"}]},
            {"messageId": "r.1", "role": "ROLE_AGENT", "parts": [{"text": "because"}]},
        ],
    }


def test_h11_the_text_of_a_failure_is_in_the_status_and_says_when_to_try_again() -> None:
    message = said(Part(text="busy"), metadata={"retryAfterSeconds": 5})
    status = shown(task(TaskState.FAILED, message))["status"]
    assert status["message"]["parts"] == [{"text": "busy"}]
    assert status["message"]["metadata"] == {"retryAfterSeconds": 5}


@pytest.mark.parametrize("state", TaskState)
def test_h10_no_state_has_a_prefix(state: TaskState) -> None:
    # The hub does not know that a task waits.
    known = TaskState.WORKING if state is TaskState.SUBMITTED else state
    assert f"TASK_STATE_{STATE_NAMES[state]}" == known.value
    assert shown(task(state))["status"]["state"] == STATE_NAMES[state]


def test_h17_an_answer_in_artifacts_alone_is_the_last_message() -> None:
    made = Artifact(artifact_id="a", parts=(Part(text="x"), Part(data={"b": [1]})))
    value = msgspec.structs.replace(task(TaskState.COMPLETED), artifacts=(made,))
    last = shown(value)["history"][-1]
    assert last["role"] == "ROLE_AGENT"
    assert last["parts"] == [{"text": "x"}, {"text": '{"b":[1]}'}]
    # A task that goes on, or whose history was not wanted, has no answer yet.
    working = msgspec.structs.replace(value, status=TaskStatus(state=TaskState.WORKING))
    assert len(shown(working)["history"]) == 1
    assert "history" not in shown(msgspec.structs.replace(value, history=()))


PARTS = st.one_of(
    st.builds(Part, text=st.text()),
    st.builds(Part, url=st.just("https://example.com/a")),
    st.builds(Part, raw=st.binary()),
    st.builds(Part, data=st.one_of(st.none(), st.integers(-9, 9), st.text())),
)


@given(parts=st.lists(PARTS, min_size=1, max_size=4).map(tuple), state=st.sampled_from(TaskState))
def test_h17_the_last_message_of_every_completed_task_is_text_of_the_agent(
    parts: tuple[Part, ...], state: TaskState
) -> None:
    answer = said(*parts)
    found = shown(task(state, answer, history=(ASKED, answer)))
    last = found["history"][-1]
    assert last["role"] == "ROLE_AGENT"
    assert last["parts"]
    assert all(isinstance(part["text"], str) for part in last["parts"])
    texts = [part.text for part in parts if part.text is not None]
    assert [part["text"] for part in last["parts"] if part["text"] in texts][: len(texts)] == texts


def send(*parts: dict[str, Any]) -> bytes:
    return json.dumps(
        {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": parts}}
    ).encode()


def test_only_text_is_read_where_files_are_ignored() -> None:
    mixed = send({"text": "a"}, {"data": 1}, {"url": "https://example.com/a"}, {"text": "b"})
    decode = HUB.decoders[Operation.SEND_MESSAGE]
    request = decode(mixed)
    assert isinstance(request, SendMessageRequest)
    assert [part.text for part in request.message.parts] == ["a", "b"]
    with pytest.raises(InvalidParams) as refused:
        decode(send({"data": 1}))
    assert refused.value.violations[0].field == "message.parts"
    everything = HubDialect(reads_text_alone=False).decoders[Operation.SEND_MESSAGE](mixed)
    assert isinstance(everything, SendMessageRequest)
    assert len(everything.message.parts) == 4


def test_x02_the_form_is_that_of_requests_without_a_version_alone() -> None:
    hub = dialects_for(preset("hub"))
    assert isinstance(hub.unstated_jsonrpc[Version.V1_0], HubDialect)
    assert hub.unstated_jsonrpc[Version.V0_3] is hub.jsonrpc[Version.V0_3]
    assert hub.jsonrpc[Version.V1_0] is hub.rest[Version.V1_0] is V1
    standard = dialects_for(preset("standard"))
    assert standard.unstated_jsonrpc is standard.jsonrpc


CARD = AgentCard(
    name="rust expert",
    description="answers",
    supported_interfaces=(
        AgentInterface(url="https://h/rest", protocol_binding="HTTP+JSON", protocol_version="1.0"),
        AgentInterface(url="https://h/rpc", protocol_binding="JSONRPC", protocol_version="1.0"),
    ),
    version="7.1.0",
    capabilities=AgentCapabilities(streaming=False),
    default_input_modes=("text/plain",),
    default_output_modes=("text/plain",),
    skills=(AgentSkill(id="rust", name="Rust", description="Rust", tags=("rust",)),),
)
STYLE = HubCard(
    organization="Trunkline",
    organization_url="https://h",
    bearer_format="tl_sess_<32hex>",
    bearer_description="a session token",
)


def test_h06_the_card_of_the_hub() -> None:
    card = STYLE.of(CARD)
    assert card["url"] == "https://h/rpc"
    assert card["version"] == "1"
    assert card["provider"] == {"organization": "Trunkline", "url": "https://h"}
    assert card["capabilities"]["streaming"] is False
    assert [skill["id"] for skill in card["skills"]] == ["ask"]
    assert card["security"] == [{"bearerSession": []}]


def test_h06_an_agent_may_have_a_provider_and_a_gateway_may_be_open() -> None:
    provider = AgentProvider(organization="Acme", url="https://acme.example")
    card = msgspec.structs.replace(CARD, provider=provider)
    found = msgspec.structs.replace(STYLE, needs_credential=False).of(card)
    assert found["provider"] == {"organization": "Acme", "url": "https://acme.example"}
    assert "security" not in found


def test_h06_only_a_client_that_names_no_form_gets_it() -> None:
    shape = Shape(unstated=STYLE.of)
    assert json.loads(cards.encode(CARD, "hybrid", shape)) == STYLE.of(CARD)
    assert cards.encode(CARD, "1.0", shape) == cards.encode(CARD, "1.0")


def streamed(entry: Entry) -> Any:
    return json.loads(b"".join(HUB.event(entry)))


def test_h12_a_stream_has_whole_tasks_in_the_form_of_the_hub() -> None:
    value = task(TaskState.WORKING)
    stored = msgspec.json.encode(value)
    assert json.loads(b"".join(HUB.streamed_task(stored))) == {"task": shown(value)}
    assert streamed(Entry.of(1, value)) == {"task": shown(value)}


def test_h12_a_status_in_a_stream_has_a_state_without_a_prefix() -> None:
    status = TaskStatus(
        state=TaskState.FAILED,
        message=said(Part(text="agent channel offline")),
        timestamp="2026-05-07T12:00:01.000Z",
    )
    update = TaskStatusUpdateEvent(task_id="t", context_id="m1", status=status)
    shown_update = streamed(Entry.of(2, update))["statusUpdate"]
    assert shown_update["taskId"] == "t"
    assert shown_update["status"]["state"] == "FAILED"
    assert shown_update["status"]["message"]["parts"] == [{"text": "agent channel offline"}]


def test_an_artifact_in_a_stream_is_that_of_a2a() -> None:
    artifact = Artifact(artifact_id="a", parts=(Part(text="x"),))
    update = TaskArtifactUpdateEvent(task_id="t", context_id="m1", artifact=artifact)
    entry = Entry.of(3, update)
    assert b"".join(HUB.event(entry)) == b"".join(V1.event(entry))


def test_a_sent_task_is_not_wrapped() -> None:
    value = task(TaskState.COMPLETED)
    assert json.loads(b"".join(HUB.sent_task(msgspec.json.encode(value)))) == shown(value)
