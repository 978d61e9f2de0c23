"""`a2a_send`: the small tool over the same client, with the same policy, limits and errors."""

from typing import Any

import pytest
from tests.remote.tool.world import (
    BILLING,
    SUPPORT,
    World,
    card,
    document,
    message,
    target,
    task,
)

from trunkline.model.values import Part, TaskState
from trunkline.remote.errors import PeerRefused
from trunkline.remote.tool.a2a_send import A2aSend, input_schema


def world(**config: Any) -> World:
    made = World(document(target(default=True), target("billing", BILLING), **config))
    made.peers.says(SUPPORT, "card", card())
    made.peers.says(BILLING, "card", card(url=BILLING))
    return made


async def sent(w: World, **request: Any) -> dict[str, Any]:
    return await A2aSend(w.tool)(request, on_update=w.updates.append)


async def test_a_text_goes_to_an_agent_and_its_answer_comes_back() -> None:
    w = world()
    w.peers.says(BILLING, "send", message("paid", context_id="ctx-1"))
    result = await sent(w, agent="billing", message="pay")
    assert (result["ok"], result["operation"], result["action"]) == (True, "a2a_send", "send")
    assert result["summary"]["message_text"] == "paid"
    assert result["summary"]["continuation"]["conversation"]["context_id"] == "ctx-1"
    assert w.peers.sent().message.parts == (Part(text="pay"),)


async def test_the_default_target_needs_no_name_and_all_fields_go_along() -> None:
    w = world()
    w.peers.says(SUPPORT, "send", task(TaskState.WORKING))
    result = await sent(
        w,
        message="go on",
        data={"order": 7},
        context_id="ctx-1",
        task_id="task-1",
        metadata={"a": 1},
        wait=False,
    )
    assert result["summary"]["continuation"]["task"]["status"] == "working"
    given = w.peers.sent()
    assert given.message.parts == (Part(text="go on"), Part(data={"order": 7}))
    assert (given.message.task_id, given.message.context_id) == ("task-1", "ctx-1")
    assert given.metadata == {"a": 1}
    assert given.configuration is not None
    assert given.configuration.return_immediately is True


async def test_a_request_that_does_not_fit_asks_nobody() -> None:
    w = world()
    result = await sent(w, agent="nobody", message="", x=1)
    assert result["operation"] == "a2a_send"
    assert result["error"]["code"] == "VALIDATION_ERROR"
    assert result["error"]["message"] == "a2a_send input validation failed"
    details = result["error"]["details"]
    assert details["tool"] == "a2a_send"
    assert {one["instancePath"] for one in details["errors"]} == {"", "/agent", "/message"}
    assert w.peers.requests() == []


@pytest.mark.parametrize(
    ("config", "request_", "path"),
    [
        ({}, {"url": "https://stranger.example"}, "/url"),
        ({"targets": []}, {}, ""),
    ],
    ids=["policy", "nobody"],
)
async def test_the_policy_is_that_of_remote_agent_in_the_words_of_this_tool(
    config: dict[str, Any], request_: dict[str, Any], path: str
) -> None:
    w = World({"enabled": True} | config) if config else world()
    result = await sent(w, message="hi", **request_)
    [error] = result["error"]["details"]["errors"]
    assert error["instancePath"] == path
    assert "target_alias" not in error["message"]
    assert w.peers.requests() == []


async def test_a_url_is_called_where_the_policy_allows_it() -> None:
    w = world(policy={"allowTargetUrlOverride": True})
    w.peers.says("https://stranger.example/", "card", card())
    w.peers.says("https://stranger.example/", "send", message("hello"))
    assert (await sent(w, url="https://stranger.example", message="hi"))["ok"]


async def test_errors_are_those_of_remote_agent() -> None:
    w = world()
    w.peers.says(SUPPORT, "send", PeerRefused("no", code=-32005))
    result = await sent(w, message="hi")
    assert (result["ok"], result["operation"]) == (False, "a2a_send")
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["details"]["rpcCode"] == -32005


async def test_nothing_that_is_no_object_gets_through() -> None:
    result = await A2aSend(world().tool)("hi")
    assert result["error"]["code"] == "VALIDATION_ERROR"


def test_the_schema_names_the_agents() -> None:
    schema = input_schema(("support", "billing"))
    assert schema["properties"]["agent"]["enum"] == ["support", "billing"]
    assert schema["required"] == ["message"]
    assert schema["additionalProperties"] is False
    assert "enum" not in input_schema(())["properties"]["agent"]
