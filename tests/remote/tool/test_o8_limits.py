"""O-8: time limits, abort, service parameters. D12: an abort is no timeout."""

import asyncio
from typing import Any

import pytest
from tests.remote.tool.world import (
    BILLING,
    HELLO,
    STRANGER,
    SUPPORT,
    World,
    artifact,
    card,
    document,
    made,
    message,
    moved,
    supported,
    target,
    task,
)

from trunkline.model.values import TaskState
from trunkline.remote.errors import PeerRefused
from trunkline.remote.target import Target
from trunkline.remote.tool import ToolConfig
from trunkline.testing import settle

SUBMITTED, WORKING, COMPLETED = TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED
FOLLOWED: dict[str, Any] = {"action": "send", "parts": HELLO, "follow_updates": True}


async def after(world: World, *seconds: float, **request: Any) -> dict[str, Any]:
    """The result of a request during which so much time passes, step by step."""
    work = asyncio.gather(world(**request))
    for step in seconds:
        await world.clock.advance(step)
    assert work.done()
    return (await work)[0]


@pytest.mark.parametrize(
    "hanging", ["card", "send"], ids=["while reading the card", "while sending"]
)
async def test_o8_a_request_ends_at_its_limit(hanging: str) -> None:
    world = supported(**{hanging: asyncio.Event()})
    result = await after(world, 0.249, 0.001, action="send", parts=HELLO, timeout_ms=250)
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["message"] == "request timed out"
    assert result["error"]["details"]["hint"] == (
        "Increase request.timeoutMs or plugin defaults.timeoutMs."
    )


async def test_o8_the_default_limit_is_that_of_the_configuration() -> None:
    world = World(document(target(default=True), defaults={"timeoutMs": 2000}))
    world.peers.says(SUPPORT, "card", asyncio.Event())
    result = await after(world, 1.9, 0.1, action="send", parts=HELLO)
    assert result["error"]["message"] == "request timed out"
    assert world.peers.asked[0].timeout_s == 2


async def test_o8_a_target_may_have_a_limit_of_its_own() -> None:
    slow = Target(alias="support", url=SUPPORT, default=True, timeout_s=3.0)
    world = World(ToolConfig(enabled=True, targets=(slow,)))
    world.peers.says(SUPPORT, "card", asyncio.Event(), asyncio.Event())
    result = await after(world, 2.9, 0.1, action="send", parts=HELLO)
    assert result["error"]["message"] == "request timed out"
    result = await after(world, 0.9, 0.1, action="send", parts=HELLO, timeout_ms=1000)
    assert result["error"]["message"] == "request timed out"
    assert [asked.timeout_s for asked in world.peers.asked] == [3, 1]


async def test_o8_a_timeout_leaves_the_remote_task_alone() -> None:
    world = supported(stream=[task(WORKING), asyncio.Event()])
    result = await after(world, 120, **FOLLOWED, cancel_on_abort=True)
    assert result["error"]["message"] == "request timed out"
    assert "cancel" not in world.peers.requests()
    assert result["error"]["details"]["task_id"] == "task-1"


async def test_item3_a_stream_that_flows_is_not_cut_at_the_limit_of_its_silence() -> None:
    gates = [asyncio.Event() for _ in range(3)]
    world = supported(
        stream=[
            task(WORKING),
            gates[0],
            made(artifact("a")),
            gates[1],
            moved(WORKING),
            gates[2],
            moved(COMPLETED),
        ]
    )
    work = asyncio.gather(world(**FOLLOWED, timeout_ms=1000))
    for gate in gates:
        await world.clock.advance(0.9)
        gate.set()
        await settle()
    assert (await work)[0]["summary"]["continuation"]["task"]["status"] == "completed"


async def test_item3_a_silent_stream_ends() -> None:
    world = supported(stream=[task(WORKING), asyncio.Event()])
    result = await after(world, 0.9, 0.1, **FOLLOWED, timeout_ms=1000)
    assert result["error"]["message"] == "request timed out"
    assert result["error"]["details"]["partial_event_count"] == 1


async def test_item3_a_stream_without_end_ends_at_the_overall_cap() -> None:
    config = document(target(default=True), defaults={"maxStreamMs": 3000})
    world, gate = World(config), asyncio.Event()
    gates = [asyncio.Event() for _ in range(10)]
    events = [event for each in gates for event in (each, moved(WORKING))]
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "stream", [task(WORKING), *events, gate])
    work = asyncio.gather(world(**FOLLOWED, timeout_ms=1000))
    for each in gates:
        await world.clock.advance(0.5)
        each.set()
        await settle()
    result = (await work)[0]
    assert result["error"]["message"] == "the stream reached its overall time limit"
    assert result["error"]["details"]["suggested_action"] == "status"
    # At 3 s the cap comes before the event of that instant.
    assert result["error"]["details"]["partial_event_count"] == 6


async def test_bad_input_a_stream_with_too_many_events_ends() -> None:
    world = World(document(target(default=True), defaults={"maxStreamEvents": 3}))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "stream", [task(WORKING)] + [moved(WORKING)] * 5)
    result = await world(**FOLLOWED)
    assert result["error"]["message"] == "the stream brought more than 3 events"
    assert len(world.updates) == 3


async def test_bad_input_a_stream_that_brings_too_much_ends() -> None:
    world = World(document(target(default=True)))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "stream", [task(WORKING)] + [made(artifact("x" * 30_000_000))] * 5)
    result = await world(**FOLLOWED)
    assert result["error"]["message"] == "the stream brought more than 67108864 bytes"
    assert result["error"]["details"]["suggested_action"] == "status"
    assert len(world.updates) == 3


@pytest.mark.parametrize("method", ["send", "stream"])
async def test_d12_an_abort_is_reported_as_an_abort(method: str) -> None:
    world, signal = supported(**{method: asyncio.Event()}), asyncio.Event()
    request = FOLLOWED if method == "stream" else {"action": "send", "parts": HELLO}
    work = asyncio.gather(world(**request, signal=signal))
    await settle()
    assert world.peers.requests() == ["card", method]
    signal.set()
    result = (await work)[0]
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["message"] == "request aborted by the caller"
    assert result["error"]["details"]["errorName"] == "AbortError"
    assert "hint" not in result["error"]["details"]


async def test_d12_who_aborts_before_the_start_asks_nobody() -> None:
    world, signal = supported(send=message("hi")), asyncio.Event()
    signal.set()
    result = await world(action="send", parts=HELLO, signal=signal)
    assert result["error"]["details"]["aborted"] is True
    assert world.peers.asked == []


async def aborted(world: World, **request: Any) -> dict[str, Any]:
    signal = asyncio.Event()
    work = asyncio.gather(world(**FOLLOWED, **request, signal=signal))
    await settle()
    signal.set()
    return (await work)[0]


async def test_item3_an_abort_can_cancel_the_remote_task() -> None:
    world = supported(stream=[task(WORKING), asyncio.Event()], cancel=task(TaskState.CANCELED))
    result = await aborted(world, cancel_on_abort=True)
    assert world.peers.asked[-1].method == "cancel"
    assert world.peers.asked[-1].value == "task-1"
    details = result["error"]["details"]
    assert (details["aborted"], details["remote_task_canceled"]) == (True, True)


async def test_item3_an_abort_that_cannot_cancel_says_so() -> None:
    refused = PeerRefused("Task cannot be canceled", code=-32002)
    world = supported(stream=[task(WORKING), asyncio.Event()], cancel=refused)
    result = await aborted(world, cancel_on_abort=True)
    assert result["error"]["message"] == "request aborted by the caller"
    assert result["error"]["details"]["remote_task_canceled"] is False


async def test_item3_an_abort_leaves_the_task_alone_unless_told() -> None:
    world = supported(stream=[task(WORKING), asyncio.Event()])
    result = await aborted(world)
    assert world.peers.requests() == ["card", "stream"]
    assert "remote_task_canceled" not in result["error"]["details"]
    assert result["error"]["details"]["continuation"]["task"]["task_id"] == "task-1"


async def test_item3_a_peer_that_hangs_in_the_cancel_keeps_nobody() -> None:
    world = supported(stream=[task(WORKING), asyncio.Event()], cancel=asyncio.Event())
    signal = asyncio.Event()
    work = asyncio.gather(world(**FOLLOWED, cancel_on_abort=True, signal=signal))
    await settle()
    signal.set()
    await world.clock.advance(10)
    assert (await work)[0]["error"]["details"]["remote_task_canceled"] is False


async def test_o8_a_caller_that_is_canceled_leaves_nothing_running() -> None:
    world = supported(send=asyncio.Event())
    work = asyncio.gather(world(action="send", parts=HELLO))
    await settle()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await settle()
    assert [one.get_name() for one in asyncio.all_tasks() if "remote_agent" in one.get_name()] == []


async def test_o8_service_parameters_of_the_call_win() -> None:
    own = target(default=True, headers={"X-Own": "target", "X-Both": "target"})
    defaults = {"serviceParameters": {"X-Key": "default", "X-Both": "default"}}
    world = World(document(own, defaults=defaults))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", message("hi"), message("hi"))
    await world(action="send", parts=HELLO, service_parameters={"x-key": "call"})
    expected = {"X-Key": "call", "X-Both": "target", "X-Own": "target"}
    assert [asked.headers for asked in world.peers.asked] == [expected, expected]


async def test_d3_a_target_never_gets_the_headers_of_another() -> None:
    config = document(
        target(headers={"Authorization": "Bearer support"}),
        target("billing", BILLING, headers={"Authorization": "Bearer billing"}),
        defaults={"serviceParameters": {"X-Key": "secret"}},
        policy={"allowTargetUrlOverride": True},
    )
    world = World(config)
    for url in (SUPPORT, BILLING, STRANGER):
        world.peers.says(url, "card", card(url=url))
        world.peers.says(url, "send", task(WORKING))
        world.peers.says(url, "get", task(WORKING), task(WORKING))
    stranger = await world(action="send", parts=HELLO, target_url=STRANGER)
    assert [asked.headers for asked in world.peers.asked] == [{}, {}]
    # Nor when it claims to be another one, nor through its handle.
    found = stranger["summary"]["continuation"]
    claim = {
        "target": {**found["target"], "target_alias": "support"},
        "task": {"task_id": "task-1"},
    }
    assert (await world(action="status", continuation=claim))["ok"]
    assert (await world(action="status", task_handle=found["task"]["task_handle"]))["ok"]
    assert {tuple(asked.headers) for asked in world.peers.asked} == {()}
    await world(action="send", parts=HELLO, target_alias="billing")
    assert world.peers.asked[-1].headers == {
        "X-Key": "secret",
        "Authorization": "Bearer billing",
    }


async def test_d3_secrets_are_in_no_envelope() -> None:
    config = document(
        target(default=True, headers={"Authorization": "Bearer s3cret"}),
        defaults={"serviceParameters": {"X-Key": "s3cret"}},
    )
    world = World(config)
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", task(WORKING), PeerRefused("no", code=-32603))
    results = [await world(action="send", parts=HELLO) for _ in range(2)]
    results.append(await world(action="list_targets"))
    assert "s3cret" not in str(results)
