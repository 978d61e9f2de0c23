"""O-2: the input schema, and what Ajv would say about input that does not fit."""

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
    errors_of,
    message,
    target,
)

from trunkline.remote.tool import anthropic_tool, input_schema, openai_tool
from trunkline.remote.tool.schema import fields_of

NOT_DEFAULT = document(target())
NO_TARGETS: dict[str, Any] = {"enabled": True}
HANDLE = "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0"
TASK = {"task_id": "task-1"}

FIELDS = {
    "target_alias": "support",
    "target_url": SUPPORT,
    "target_tags": ["x"],
    "skill": "x",
    "parts": HELLO,
    "task_handle": HANDLE,
    "continuation": continuation(task=TASK),
    "message_id": "m",
    "task_id": "t",
    "context_id": "c",
    "reference_task_ids": ["t"],
    "task_requirement": "optional",
    "follow_updates": False,
    "wait_timeout_ms": 5,
    "cancel_on_abort": True,
    "accepted_output_modes": [],
    "blocking": True,
    "history_length": 0,
    "timeout_ms": 1,
    "service_parameters": {},
    "metadata": {},
    "push_notification_config": {"url": "https://hook.example"},
}
FOLLOW_UP = {
    "target_alias",
    "target_url",
    "task_handle",
    "continuation",
    "task_id",
    "timeout_ms",
    "service_parameters",
}
ALLOWED = {
    "list_targets": set(),
    "send": set(FIELDS),
    "watch": FOLLOW_UP,
    "cancel": FOLLOW_UP,
    "status": FOLLOW_UP | {"history_length"},
}


async def problems(config: dict[str, Any] | None = None, /, **request: Any) -> list[Any]:
    """All errors of a request that is to be refused without asking anybody."""
    world = World(config)
    result = await world.tool(request)
    assert world.peers.asked == []
    return errors_of(result)


def test_o2_every_field_and_no_other_is_in_the_schema() -> None:
    schema = input_schema(["support"])
    assert set(schema["properties"]) == {"action", *FIELDS}
    assert schema["required"] == ["action"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["target_alias"]["enum"] == ["support"]
    assert "enum" not in input_schema()["properties"]["target_alias"]


def test_o2_every_object_but_metadata_and_data_is_closed() -> None:
    def objects(schema: Any, name: str = "") -> Any:
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                yield name, schema.get("additionalProperties")
            for key, value in schema.items():
                yield from objects(value, key)
        elif isinstance(schema, list):
            for value in schema:
                yield from objects(value, name)

    found = list(objects(input_schema()))
    assert len(found) > 10
    for name, rule in found:
        if name in ("metadata", "data"):
            assert rule is None
        elif name == "service_parameters":
            assert rule == {"type": "string"}
        else:
            assert rule is False, name


def test_item7_the_schema_in_the_forms_of_model_vendors() -> None:
    schema = input_schema(["support"])
    openai, anthropic = openai_tool(["support"]), anthropic_tool(["support"])
    assert openai["type"] == "function"
    assert openai["function"]["name"] == anthropic["name"] == "remote_agent"
    assert openai["function"]["parameters"] == anthropic["input_schema"] == schema
    assert openai["function"]["description"] == anthropic["description"] != ""


@pytest.mark.parametrize("action", ALLOWED)
def test_o2_fields_per_action(action: str) -> None:
    assert fields_of(action) == ALLOWED[action]


@pytest.mark.parametrize(
    ("action", "name"),
    [(action, name) for action in ALLOWED for name in FIELDS if name not in ALLOWED[action]],
)
async def test_o2_a_field_of_another_action_is_not_supported(action: str, name: str) -> None:
    world = World()
    result = await world.tool({"action": action, name: FIELDS[name]})
    assert world.peers.asked == []
    assert result["error"]["details"]["errors"][0] == {
        "keyword": "not",
        "instancePath": "",
        "schemaPath": "#/runtime/not",
        "params": {"property": name, "action": action},
        "message": f'"{name}" is not supported for action={action}',
    }


def wrong(
    field: str, keyword: str, message: str, params: dict[str, Any], at: str = "", schema: str = ""
) -> dict[str, Any]:
    return {
        "keyword": keyword,
        "instancePath": f"/{field}{at}",
        "schemaPath": f"#/properties/{schema or field}/{keyword}",
        "params": params,
        "message": message,
    }


TYPES = [
    ("target_alias", "string"),
    ("skill", "string"),
    ("message_id", "string"),
    ("task_id", "string"),
    ("context_id", "string"),
    ("target_url", "string"),
    ("task_handle", "string"),
    ("parts", "array"),
    ("target_tags", "array"),
    ("reference_task_ids", "array"),
    ("accepted_output_modes", "array"),
    ("follow_updates", "boolean"),
    ("cancel_on_abort", "boolean"),
    ("blocking", "boolean"),
    ("history_length", "integer"),
    ("timeout_ms", "integer"),
    ("wait_timeout_ms", "integer"),
    ("service_parameters", "object"),
    ("metadata", "object"),
    ("continuation", "object"),
    ("push_notification_config", "object"),
]


@pytest.mark.parametrize(("field", "kind"), TYPES)
async def test_o2_nothing_is_coerced(field: str, kind: str) -> None:
    given: Any = "1" if kind != "string" else 1
    result = await World(NO_TARGETS).tool({"action": "send", field: given})
    expected = wrong(field, "type", f"must be {kind}", {"type": kind})
    assert result["error"]["details"]["errors"] == [expected]


VALUES = [
    ("target_url", "ftp://x", "pattern", 'must match pattern "^https?://"', "^https?://"),
    ("target_url", "https://a b", "format", 'must match format "uri"', "uri"),
    (
        "task_handle",
        "rah_",
        "pattern",
        'must match pattern "^rah_[A-Za-z0-9-]+$"',
        "^rah_[A-Za-z0-9-]+$",
    ),
    (
        "task_handle",
        "rah_x\n",
        "pattern",
        'must match pattern "^rah_[A-Za-z0-9-]+$"',
        "^rah_[A-Za-z0-9-]+$",
    ),
    ("parts", [], "minItems", "must NOT have fewer than 1 items", 1),
    ("reference_task_ids", [], "minItems", "must NOT have fewer than 1 items", 1),
    ("message_id", "", "minLength", "must NOT have fewer than 1 characters", 1),
]
PARAM = {"minItems": "limit", "minLength": "limit"}


@pytest.mark.parametrize(("field", "value", "keyword", "message", "param"), VALUES)
async def test_o2_values_that_do_not_fit(
    field: str, value: Any, keyword: str, message: str, param: Any
) -> None:
    result = await World().tool({"action": "send", field: value})
    params = {PARAM.get(keyword, keyword): param}
    expected = wrong(field, keyword, message, params)
    assert result["error"]["details"]["errors"] == [expected]


@pytest.mark.parametrize(
    ("field", "value", "limit"),
    [("history_length", -1, 0), ("timeout_ms", 0, 1), ("wait_timeout_ms", 0, 1)],
)
async def test_o2_numbers_have_a_least_value(field: str, value: int, limit: int) -> None:
    result = await World().tool({"action": "send", field: value})
    params = {"comparison": ">=", "limit": limit}
    expected = wrong(field, "minimum", f"must be >= {limit}", params)
    assert result["error"]["details"]["errors"] == [expected]


async def test_o2_a_fraction_is_no_integer_and_may_be_too_small_as_well() -> None:
    assert await problems(action="send", timeout_ms=0.5) == [
        ("type", "/timeout_ms", "must be integer"),
        ("minimum", "/timeout_ms", "must be >= 1"),
    ]


async def test_o2_a_whole_number_with_a_point_is_an_integer() -> None:
    world = World()
    await world.tool({"action": "send", "parts": HELLO, "timeout_ms": 250.0})
    assert world.peers.asked[0].timeout_s == 0.25


async def test_o2_the_action_is_required_and_one_of_five() -> None:
    allowed = ["list_targets", "send", "watch", "status", "cancel"]
    missing = await World().tool({})
    assert missing["action"] == "unknown"
    assert missing["error"]["details"]["errors"] == [
        {
            "keyword": "required",
            "instancePath": "",
            "schemaPath": "#/required",
            "params": {"missingProperty": "action"},
            "message": "must have required property 'action'",
        }
    ]
    other = await World().tool({"action": "fly"})
    message = "must be equal to one of the allowed values"
    assert other["error"]["details"]["errors"] == [
        wrong("action", "enum", message, {"allowedValues": allowed})
    ]
    # Ajv reports both: nothing that `enum` needs is missing from a number.
    assert await problems(action=5) == [
        ("type", "/action", "must be string"),
        ("enum", "/action", message),
    ]


@pytest.mark.parametrize(
    ("request_", "shown"),
    [({"action": "fly"}, "fly"), ({"action": 5}, "unknown"), ({}, "unknown"), ([], "unknown")],
)
async def test_o2_the_envelope_echoes_an_unknown_action(request_: Any, shown: str) -> None:
    assert (await World().tool(request_))["action"] == shown


@pytest.mark.parametrize("given", [None, [], "send", 1])
async def test_o2_a_request_is_an_object(given: Any) -> None:
    assert errors_of(await World().tool(given)) == [("type", "", "must be object")]


@pytest.mark.parametrize("given", [object(), "\ud800"], ids=["object", "surrogate"])
async def test_o2_a_request_is_json(given: Any) -> None:
    request = {"action": "send", "parts": HELLO, "metadata": {"x": given}}
    assert errors_of(await World().tool(request)) == [
        ("type", "", "must be JSON, with valid Unicode")
    ]


async def test_o2_what_a_caller_hands_over_is_not_kept() -> None:
    world = World()
    given: dict[str, Any] = {"action": "send", "parts": HELLO, "metadata": {"a": [1]}}
    world.peers.says(SUPPORT, "card", card())
    world.peers.says(SUPPORT, "send", message("hi"))
    await world.tool(given)
    given["metadata"]["a"].append(2)
    assert world.peers.sent().metadata == {"a": [1]}


async def test_o2_names_that_are_no_texts_are_those_of_json() -> None:
    found = await problems(action="send", parts=HELLO, service_parameters={1: 2})
    assert found == [("type", "/service_parameters/1", "must be string")]


async def test_o2_all_schema_errors_come_together_and_alone() -> None:
    found = await problems(
        action="send", extra=1, blocking="x", history_length=-1, target_alias="y"
    )
    assert found == [
        ("additionalProperties", "", "must NOT have additional properties"),
        ("enum", "/target_alias", "must be equal to one of the allowed values"),
        ("type", "/blocking", "must be boolean"),
        ("minimum", "/history_length", "must be >= 0"),
    ]


async def test_o2_all_rule_errors_come_together() -> None:
    found = await problems(NO_TARGETS, action="send", follow_updates=True, blocking=False)
    assert found == [
        ("required", "", "send requires parts"),
        ("not", "/blocking", "send does not allow blocking when follow_updates=true"),
        (
            "anyOf",
            "",
            "send requires task_handle, target_alias, target_url, or a configured default target",
        ),
    ]


PART = "/parts/0"


async def part_errors(part: Any) -> list[Any]:
    return await problems(action="send", parts=[part])


async def test_o2_a_part_matches_one_of_three_shapes() -> None:
    world = World()
    result = await world.tool({"action": "send", "parts": [{"kind": "text"}]})
    first, *others = result["error"]["details"]["errors"]
    assert first == {
        "keyword": "required",
        "instancePath": "/parts/0",
        "schemaPath": "#/properties/parts/items/oneOf/0/required",
        "params": {"missingProperty": "text"},
        "message": "must have required property 'text'",
    }
    assert others[-1] == {
        "keyword": "oneOf",
        "instancePath": "/parts/0",
        "schemaPath": "#/properties/parts/items/oneOf",
        "params": {"passingSchemas": None},
        "message": "must match exactly one schema in oneOf",
    }
    assert ("const", "/parts/0/kind", "must be equal to constant") in errors_of(result)


@pytest.mark.parametrize(
    "part",
    [
        {"kind": "text", "text": "", "metadata": {"any": [1]}},
        {"kind": "file", "uri": "https://x/y.pdf"},
        {"kind": "file", "bytes": "aGk=", "name": "a", "mime_type": "text/plain"},
        {"kind": "file", "uri": "https://x/y", "bytes": "aGk="},
        {"kind": "data", "data": {"deep": {"er": None}}, "metadata": {}},
    ],
)
async def test_o2_parts_that_fit(part: Any) -> None:
    world = World()
    result = await world.tool({"action": "send", "parts": [part]})
    assert result["error"]["code"] == "A2A_SDK_ERROR"  # it went out, and nobody was there
    assert world.peers.requests() == ["card"]


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ({"kind": "file"}, ("anyOf", PART, "must match a schema in anyOf")),
        ({"kind": "data", "data": []}, ("type", f"{PART}/data", "must be object")),
        ({"kind": "text", "text": 1}, ("type", f"{PART}/text", "must be string")),
        (
            {"kind": "text", "text": "x", "mime_type": "y"},
            ("additionalProperties", PART, "must NOT have additional properties"),
        ),
        ("hello", ("type", PART, "must be object")),
    ],
)
async def test_o2_parts_that_do_not_fit(part: Any, error: Any) -> None:
    assert error in await part_errors(part)


async def test_o2_bytes_are_base64() -> None:
    assert await part_errors({"kind": "file", "bytes": "%%%"}) == [
        ("format", f"{PART}/bytes", "must be base64")
    ]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, ("required", "", "must have required property 'target'")),
        (
            {"target": {"target_url": SUPPORT}},
            ("required", "/target", "must have required property 'card_path'"),
        ),
        (
            {"target": {**TARGET_JSON, "preferred_transports": []}},
            ("minItems", "/target/preferred_transports", "must NOT have fewer than 1 items"),
        ),
        (continuation(task={}), ("required", "/task", "must have required property 'task_id'")),
        (
            continuation(task={**TASK, "can_watch": "yes"}),
            ("type", "/task/can_watch", "must be boolean"),
        ),
        (
            continuation(conversation={"context_id": "c", "can_send": False}),
            ("const", "/conversation/can_send", "must be equal to constant"),
        ),
        (
            continuation(conversation={"can_send": True}),
            ("required", "/conversation", "must have required property 'context_id'"),
        ),
        (
            continuation(task=TASK, more=1),
            ("additionalProperties", "", "must NOT have additional properties"),
        ),
    ],
)
async def test_o2_a_continuation_is_checked_at_every_level(given: Any, error: Any) -> None:
    keyword, path, message = error
    found = await problems(action="send", parts=HELLO, continuation=given)
    assert (keyword, f"/continuation{path}", message) in found


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, ("required", "", "must have required property 'url'")),
        (
            {"url": "https://x", "authentication": {"schemes": []}},
            ("minItems", "/authentication/schemes", "must NOT have fewer than 1 items"),
        ),
        (
            {"url": "https://x", "authentication": {}},
            ("required", "/authentication", "must have required property 'schemes'"),
        ),
    ],
)
async def test_o2_a_push_config_is_checked(given: Any, error: Any) -> None:
    keyword, path, message = error
    found = await problems(action="send", parts=HELLO, push_notification_config=given)
    assert (keyword, f"/push_notification_config{path}", message) in found


async def test_o2_service_parameters_are_texts_that_fit_into_headers() -> None:
    assert await problems(action="send", parts=HELLO, service_parameters={"a/b": 1}) == [
        ("type", "/service_parameters/a~1b", "must be string")
    ]
    for name, value in (("a b", "x"), ("x", "1\r\nEvil: 2")):
        assert await problems(action="send", parts=HELLO, service_parameters={name: value}) == [
            ("format", f"/service_parameters/{name}", "must be a valid HTTP header")
        ]


@pytest.mark.parametrize(
    "name", ["task_handle", "task_id", "context_id", "target_alias", "target_url"]
)
async def test_o2_a_continuation_excludes_flat_routing(name: str) -> None:
    found = await problems(
        action="send",
        parts=HELLO,
        continuation=continuation(task=TASK),
        **{name: FIELDS[name]},
    )
    message = f'action=send does not allow "{name}" when continuation is present'
    assert found == [("not", f"/{name}", message)]


@pytest.mark.parametrize("action", ["watch", "status", "cancel"])
async def test_o2_a_continuation_excludes_flat_routing_of_follow_ups(action: str) -> None:
    found = await problems(action=action, continuation=continuation(task=TASK), task_id="t")
    message = f'action={action} does not allow "task_id" when continuation is present'
    assert found == [("not", "/task_id", message)]


async def test_o2_an_alias_without_any_configured() -> None:
    found = await problems(NO_TARGETS, action="send", parts=HELLO, target_alias="x")
    assert found == [("enum", "/target_alias", "must match a configured target alias")]


@pytest.mark.parametrize("url", [STRANGER, "https://user:pass@support.example/"])
async def test_o2_a_url_that_no_policy_allows(url: str) -> None:
    found = await problems(action="send", parts=HELLO, target_url=url)
    message = "must resolve to a configured target or be allowed by policy"
    assert found == [("anyOf", "/target_url", message)]


async def test_o2_send_requires_parts() -> None:
    assert await problems(action="send") == [("required", "", "send requires parts")]


@pytest.mark.parametrize("name", ["blocking", "wait_timeout_ms"])
@pytest.mark.parametrize("value", [1, 0])
async def test_o2_follow_updates_excludes(name: str, value: int) -> None:
    given: Any = bool(value) if name == "blocking" else value + 1
    found = await problems(action="send", parts=HELLO, follow_updates=True, **{name: given})
    message = f"send does not allow {name} when follow_updates=true"
    assert found == [("not", f"/{name}", message)]


async def test_o2_a_continuation_of_nothing_cannot_be_sent_to() -> None:
    found = await problems(action="send", parts=HELLO, continuation=continuation())
    message = (
        "send requires continuation.task, continuation.conversation, or both when continuation "
        "is present"
    )
    assert found == [("anyOf", "/continuation", message)]


@pytest.mark.parametrize("config", [NO_TARGETS, NOT_DEFAULT])
async def test_o2_send_requires_a_target(config: dict[str, Any]) -> None:
    message = "send requires task_handle, target_alias, target_url, or a configured default target"
    assert await problems(config, action="send", parts=HELLO) == [("anyOf", "", message)]


@pytest.mark.parametrize("action", ["watch", "status", "cancel"])
async def test_o2_follow_ups_require_a_task(action: str) -> None:
    conversation = continuation(conversation={"context_id": "c"})
    message = f"{action} requires continuation.task.task_id when continuation is present"
    assert await problems(action=action, continuation=conversation) == [
        ("required", "/continuation", message)
    ]
    assert await problems(action=action) == [
        ("anyOf", "", f"{action} requires task_handle or task_id")
    ]


@pytest.mark.parametrize("action", ["watch", "status", "cancel"])
async def test_o2_follow_ups_by_task_id_require_a_target(action: str) -> None:
    message = (
        f"{action} requires target_alias, target_url, or a configured default target when task_id "
        "is used without task_handle"
    )
    assert await problems(NOT_DEFAULT, action=action, task_id="t") == [("anyOf", "", message)]


async def test_o2_alias_and_url_together_are_taken_and_the_alias_wins() -> None:
    world = World(document(target(), target("billing", BILLING)))
    await world.tool(
        {"action": "send", "parts": HELLO, "target_alias": "billing", "target_url": SUPPORT}
    )
    assert [asked.target.alias for asked in world.peers.asked] == ["billing"]
