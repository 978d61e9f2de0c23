"""O-4: which target and which task a request means."""

from typing import Any

import pytest
from tests.remote.tool.world import (
    BILLING,
    HELLO,
    STRANGER,
    SUPPORT,
    TARGET_JSON,
    World,
    card,
    continuation,
    document,
    message,
    supported,
    target,
    task,
)

from trunkline.model.values import TaskState
from trunkline.remote.target import Target
from trunkline.remote.tool import parse_config
from trunkline.remote.tool.failures import ToolFailure
from trunkline.remote.tool.handles import Unknown
from trunkline.remote.tool.request import ToolRequest
from trunkline.remote.tool.resolve import resolve

WORKING = TaskState.WORKING
OPEN = {"allowTargetUrlOverride": True}
STRANGE = {"target_url": STRANGER, "card_path": "/card", "preferred_transports": ["JSONRPC"]}


def two(**more: Any) -> World:
    world = World(document(target(default=True), target("billing", BILLING), **more))
    for url in (SUPPORT, BILLING, STRANGER):
        world.peers.says(url, "card", card(url=url))
        world.peers.says(url, "send", task(WORKING), task(WORKING), task(WORKING))
        world.peers.says(url, "get", task(WORKING), task(WORKING), task(WORKING))
    return world


async def delegated(world: World, **request: Any) -> dict[str, Any]:
    result = await world(action="send", parts=HELLO, **request)
    assert result["ok"], result
    found: dict[str, Any] = result["summary"]["continuation"]
    return found


def urls(world: World) -> list[str]:
    return [asked.target.url for asked in world.peers.asked if asked.method != "card"]


async def test_o4_1a_a_live_handle_in_a_continuation_is_kept_and_prolonged() -> None:
    world = two()
    found = await delegated(world)
    await world.clock.advance(80_000)  # of 86,400 s
    again = await world(action="status", continuation=found)
    assert again["summary"]["continuation"] == found
    await world.clock.advance(80_000)
    flat = await world(action="status", task_handle=found["task"]["task_handle"])
    assert flat["ok"]


async def test_o4_1a_task_id_must_be_that_of_the_handle() -> None:
    world = two()
    found = await delegated(world)
    handle = found["task"]["task_handle"]
    found["task"]["task_id"] = "other"
    result = await world(action="status", continuation=found)
    assert result["error"] == {
        "code": "VALIDATION_ERROR",
        "message": f'task_handle "{handle}" does not match task_id "other"',
        "details": {
            "task_handle": handle,
            "handle_task_id": "task-1",
            "explicit_task_id": "other",
        },
    }
    assert urls(world) == [SUPPORT]


async def test_o4_1a_context_must_be_that_of_the_handle() -> None:
    world = two()
    found = await delegated(world)
    handle = found["task"]["task_handle"]
    found["conversation"]["context_id"] = "other"
    result = await world(action="send", parts=HELLO, continuation=found)
    assert result["error"]["message"] == (
        f'task_handle "{handle}" does not match context_id "other"'
    )
    assert result["error"]["details"] == {
        "task_handle": handle,
        "handle_context_id": "ctx-1",
        "explicit_context_id": "other",
    }


async def test_o4_1a_target_must_be_that_of_the_handle() -> None:
    world = two()
    found = await delegated(world)
    handle = found["task"]["task_handle"]
    found["target"] = {**TARGET_JSON, "target_url": BILLING, "target_alias": "billing"}
    result = await world(action="status", continuation=found)
    assert result["error"]["code"] == "VALIDATION_ERROR"
    assert result["error"]["message"] == (
        f'task_handle "{handle}" does not match the explicit target'
    )
    assert result["error"]["details"] == {
        "task_handle": handle,
        "handle_target": TARGET_JSON,
        "explicit_target": found["target"],
    }


@pytest.mark.parametrize("is_expired", [True, False])
async def test_o4_1b_without_a_live_handle_target_and_task_id_lead_on(is_expired: bool) -> None:
    world = two()
    found = await delegated(world)
    handle = found["task"]["task_handle"]
    if is_expired:
        await world.clock.advance(86_400)
    else:
        handle = found["task"]["task_handle"] = "rah_unknown"
    result = await world(action="status", continuation=found)
    assert result["ok"]
    fresh = result["summary"]["continuation"]["task"]["task_handle"]
    assert fresh.startswith("rah_")
    assert fresh != handle
    assert (await world(action="status", task_handle=fresh))["ok"]


async def test_o4_1c_without_a_handle_target_task_and_context_lead_on() -> None:
    world = two()
    given = continuation(task={"task_id": "task-1"}, conversation={"context_id": "ctx-1"})
    await delegated(world, continuation=given)
    sent = world.peers.sent().message
    assert (sent.task_id, sent.context_id) == ("task-1", "ctx-1")


async def test_o4_1d_a_conversation_alone_starts_a_new_task_in_it() -> None:
    world = two()
    await delegated(world, continuation=continuation(conversation={"context_id": "ctx-9"}))
    sent = world.peers.sent().message
    assert (sent.task_id, sent.context_id) == ("", "ctx-9")


async def test_o4_2_a_flat_handle_leads_to_its_task() -> None:
    world = two()
    found = await delegated(world, target_alias="billing")
    result = await world(action="status", task_handle=found["task"]["task_handle"])
    assert result["summary"]["target_alias"] == "billing"
    assert urls(world) == [BILLING, BILLING]


@pytest.mark.parametrize("action", ["send", "watch", "status", "cancel"])
async def test_o4_2_a_flat_handle_that_is_unknown_is_an_error(action: str) -> None:
    world = two()
    more: dict[str, Any] = {"parts": HELLO} if action == "send" else {}
    result = await world(action=action, task_handle="rah_x", task_id="t", **more)
    assert result["error"]["code"] == "UNKNOWN_TASK_HANDLE"
    assert world.peers.asked == []


async def test_o4_2_what_stands_beside_a_flat_handle_must_match() -> None:
    world = two()
    handle = (await delegated(world))["task"]["task_handle"]
    fits = await world(action="status", task_handle=handle, task_id="task-1", target_url=SUPPORT)
    assert fits["ok"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"action": "status", "task_id": "x"}, 'task_id "x"'),
        ({"action": "send", "parts": HELLO, "context_id": "x"}, 'context_id "x"'),
        ({"action": "status", "target_alias": "billing"}, "the explicit target"),
        ({"action": "status", "target_url": BILLING}, "the explicit target"),
    ]
    for request, what in wrong:
        result = await world(task_handle=handle, **request)
        assert result["error"]["code"] == "VALIDATION_ERROR"
        assert result["error"]["message"] == f'task_handle "{handle}" does not match {what}'


async def test_o4_3_alias_before_url_before_default() -> None:
    world = two(policy=OPEN)
    await delegated(world, target_alias="billing", target_url=STRANGER)
    await delegated(world, target_url=STRANGER)
    await delegated(world)
    assert urls(world) == [BILLING, STRANGER, SUPPORT]


async def test_o4_3_a_task_id_may_go_with_a_send() -> None:
    world = two()
    await delegated(world, task_id="task-1", context_id="ctx-1", reference_task_ids=["r-1"])
    sent = world.peers.sent().message
    assert (sent.task_id, sent.context_id) == ("task-1", "ctx-1")
    assert sent.reference_task_ids == ("r-1",)


async def test_o4_a_url_adopts_the_configured_target() -> None:
    world = two()
    result = await world(action="send", parts=HELLO, target_url="https://SUPPORT.example:443")
    assert result["summary"]["target_alias"] == "support"


async def test_o4_two_targets_at_one_url_are_ambiguous() -> None:
    world = World(document(target("a"), target("b", "https://support.example")))
    result = await world(action="send", parts=HELLO, target_url=SUPPORT)
    assert result["error"]["code"] == "TARGET_RESOLUTION_ERROR"
    assert result["error"]["details"] == {
        "reason": "ambiguous_normalized_url_matches",
        "target_url": SUPPORT,
        "target_aliases": ["a", "b"],
        "suggested_action": "list_targets",
    }


async def test_o4_two_targets_at_one_url_are_told_apart_by_alias_or_by_card() -> None:
    world = World(document(target("a"), target("b", cardPath="/b.json")))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "get", task(), task(), task())
    by_card = {**TARGET_JSON, "card_path": "/b.json"}
    by_alias = {**TARGET_JSON, "card_path": "/b.json", "target_alias": "b"}
    for given in (by_card, by_alias):
        result = await world(
            action="status", continuation={"target": given, "task": {"task_id": "task-1"}}
        )
        assert result["summary"]["target_alias"] == "b"
    neither = {**TARGET_JSON, "card_path": "/moved.json", "target_alias": "c"}
    result = await world(
        action="status", continuation={"target": neither, "task": {"task_id": "task-1"}}
    )
    assert result["error"]["details"]["reason"] == "ambiguous_normalized_url_matches"


def resolved(request: ToolRequest, **config: Any) -> Target:
    return resolve(
        request, parse_config(document(**config)), Unknown(), key=b"", is_durable=True
    ).target


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (ToolRequest(action="send", target_alias="nobody"), "unknown_alias"),
        (ToolRequest(action="send", target_url=STRANGER), "raw_url_disallowed_by_policy"),
    ],
)
def test_o4_reasons_that_validation_finds_first(request_: ToolRequest, reason: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        resolved(request_)
    assert caught.value.code == "TARGET_RESOLUTION_ERROR"
    assert caught.value.details["reason"] == reason
    assert caught.value.details["suggested_action"] == "list_targets"


def test_o4_a_url_that_the_policy_allows_gets_the_defaults() -> None:
    found = resolved(
        ToolRequest(action="send", target_url=STRANGER),
        policy=OPEN,
        defaults={"cardPath": "/c.json", "preferredTransports": ["HTTP+JSON"]},
    )
    assert found == Target(url=STRANGER, card_path="/c.json", transports=("HTTP+JSON",))


async def test_item3_a_continuation_to_a_stranger_is_refused() -> None:
    world = two()
    result = await world(
        action="status", continuation={"target": STRANGE, "task": {"task_id": "t"}}
    )
    assert result["error"]["code"] == "TARGET_RESOLUTION_ERROR"
    assert result["error"]["details"]["reason"] == "raw_url_disallowed_by_policy"
    assert world.peers.asked == []


async def test_item3_a_continuation_to_a_stranger_is_taken_where_the_policy_allows_it() -> None:
    world = two(policy=OPEN)
    result = await world(
        action="status", continuation={"target": STRANGE, "task": {"task_id": "task-1"}}
    )
    assert result["ok"]
    assert world.peers.asked[0].target == Target(
        url=STRANGER, card_path="/card", transports=("JSONRPC",)
    )


async def test_item3_a_continuation_that_we_issued_is_signed_and_taken() -> None:
    opened = two(policy=OPEN)
    found = await delegated(opened, target_url=STRANGER)
    signature = found["target"]["signature"]
    # The same gateway, restarted with a stricter policy and without its handle.
    strict = World(handles=opened.handles, peers=opened.peers)
    found["task"].pop("task_handle")
    assert (await strict(action="status", continuation=found))["ok"]
    for changed in (
        {"signature": "00" * 32},
        {"signature": ""},
        {"target_url": "https://else.example/"},
        {"card_path": "/else.json"},
        {"preferred_transports": ["HTTP+JSON"]},
    ):
        forged = {**found, "target": {**found["target"], **changed}}
        result = await strict(action="status", continuation=forged)
        assert result["error"]["details"]["reason"] == "raw_url_disallowed_by_policy", changed
    # Another gateway has another key.
    other = two()
    result = await other(action="status", continuation=found)
    assert result["error"]["code"] == "TARGET_RESOLUTION_ERROR"
    assert len(signature) == 64


async def test_item3_a_live_handle_is_proof_enough() -> None:
    opened = two(policy=OPEN)
    found = await delegated(opened, target_url=STRANGER)
    found["target"].pop("signature")
    strict = World(handles=opened.handles, peers=opened.peers)
    assert (await strict(action="status", continuation=found))["ok"]


async def test_item3_a_target_that_is_configured_no_more_is_closed_for_its_handles() -> None:
    world = two()
    found = await delegated(world)
    handle = found["task"]["task_handle"]
    assert world.peers.asked
    strict = World(document(target("billing", BILLING)), handles=world.handles, peers=world.peers)
    world.peers.asked.clear()
    for given in ({"continuation": found}, {"task_handle": handle}):
        result = await strict(action="status", **given)
        assert result["error"]["code"] == "TARGET_RESOLUTION_ERROR"
        assert result["error"]["details"]["reason"] == "raw_url_disallowed_by_policy"
    assert world.peers.asked == []
    opened = World(
        document(target("billing", BILLING), policy=OPEN), handles=world.handles, peers=world.peers
    )
    result = await opened(action="status", task_handle=handle)
    assert result["ok"]
    assert "target_alias" not in result["summary"]


async def test_item3_configured_targets_need_no_signature() -> None:
    world = two()
    found = await delegated(world)
    assert "signature" not in found["target"]


async def test_item3_an_alias_does_not_make_a_stranger_configured() -> None:
    world = two(policy=OPEN)
    given = {"target": {**STRANGE, "target_alias": "support"}, "task": {"task_id": "task-1"}}
    result = await world(action="status", continuation=given)
    assert "target_alias" not in result["summary"]


async def test_item3_the_configuration_says_how_to_call_its_targets() -> None:
    world = World(document(target(cardPath="/mine.json", preferredTransports=["HTTP+JSON"])))
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "get", task())
    given = {**TARGET_JSON, "card_path": "/mine.json"}
    await world(action="status", continuation={"target": given, "task": {"task_id": "task-1"}})
    asked = world.peers.asked[0].target
    assert (asked.card_path, asked.transports) == ("/mine.json", ("HTTP+JSON",))


@pytest.mark.parametrize("has_handle", [True, False])
async def test_item3_a_changed_card_path_is_refused(has_handle: bool) -> None:
    world = two()
    found = await delegated(world)
    if not has_handle:
        found["task"].pop("task_handle")
    assert (await world(action="status", continuation=found))["ok"]
    asked = len(world.peers.asked)
    changed = {**found, "target": {**found["target"], "card_path": "/else.json"}}
    result = await world(action="status", continuation=changed)
    assert result["error"]["code"] == "TARGET_RESOLUTION_ERROR"
    details = result["error"]["details"]
    assert (details["reason"], details["card_path"]) == ("continuation_changed", "/else.json")
    assert "target_alias and task_id" in details["hint"]
    assert len(world.peers.asked) == asked


async def test_item3_a_live_handle_outlives_a_new_card_path_in_the_configuration() -> None:
    world = two()
    found = await delegated(world)
    moved = World(
        document(target(cardPath="/mine.json"), target("billing", BILLING)),
        handles=world.handles,
        peers=world.peers,
    )
    assert (await moved(action="status", continuation=found))["ok"]
    assert world.peers.asked[-1].target.card_path == "/mine.json"
    # Without the handle nobody can tell whether the path was changed on the endpoint.
    found["task"].pop("task_handle")
    result = await moved(action="status", continuation=found)
    assert result["error"]["details"]["reason"] == "continuation_changed"


async def test_o4_transports_of_a_continuation_are_enforced() -> None:
    world = two(policy=OPEN)
    given = {**STRANGE, "preferred_transports": ["GRPC"]}
    result = await world(action="status", continuation={"target": given, "task": {"task_id": "t"}})
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["message"] == "unsupported preferred transport(s) in this build: GRPC"


async def test_o4_a_url_that_leads_nowhere_is_refused_in_a_continuation() -> None:
    world = two(policy=OPEN)
    given = {**STRANGE, "target_url": "https://u:p@x.example/"}
    result = await world(action="status", continuation={"target": given, "task": {"task_id": "t"}})
    assert result["error"]["details"]["reason"] == "raw_url_disallowed_by_policy"


async def test_o4_a_message_in_reply_to_a_task_keeps_the_task() -> None:
    world = supported(send=message("noted"))
    given = continuation(task={"task_id": "task-1"})
    result = await world(action="send", parts=HELLO, continuation=given)
    found = result["summary"]["continuation"]["task"]
    assert found["task_id"] == "task-1"
    assert "status" not in found
    assert found["can_resume_send"] is True
    assert found["task_handle"].startswith("rah_")
