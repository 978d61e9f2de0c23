"""The dialect `v0.3-legacy`: what clients wrote before 0.3 settled (channel.md D-35 to D-37)."""

from typing import Any

import msgspec
import pytest
from tests.bindings.cases import JSONRPC, V03, over
from tests.bindings.clients import message
from tests.bindings.shapes import Json
from tests.bindings.world import open_world
from tests.inbound.wire import old, rpc

ONLY_03: Json = {"dialect": "v0.3", "default_version": "0.3"}
LEGACY: Json = {"dialect": "v0.3-legacy", "default_version": "0.3"}
TEXT: Json = {"kind": "text", "text": "say hi"}

LEGACY_PARTS: dict[str, tuple[Json, Json]] = {
    "text": ({"type": "text", "text": "a"}, {"text": "a"}),
    "data": ({"type": "data", "data": {"a": 1}}, {"data": {"a": 1}}),
    "file": (
        {
            "type": "file",
            "file": {"uri": "https://e.com/f", "mimeType": "text/plain", "name": "f"},
        },
        {"url": "https://e.com/f", "mediaType": "text/plain", "filename": "f"},
    ),
    "bytes": (
        {"type": "file", "file": {"bytes": "YQ==", "mimeType": "text/plain"}},
        {"raw": "YQ==", "mediaType": "text/plain"},
    ),
}


@pytest.mark.parametrize(("part", "meant"), LEGACY_PARTS.values(), ids=LEGACY_PARTS)
@over(*V03)
async def test_x01_legacy_parts_say_type(part: Json, meant: Json, dialect: str) -> None:
    async with open_world(**LEGACY) as world:
        request = world.client(dialect).request("SendMessage", {"message": message("x")})
        params: Json = old(part)
        if dialect in JSONRPC:
            params = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
        request.body = msgspec.json.encode(params)
        answer = await world.http.send(request)
        assert answer.status == 200, answer.body
        [turn] = world.agent.turns
    assert msgspec.to_builtins(turn.message.parts) == (meant,)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "file", "text": "a"}, 'is "file", but the part holds text'),
        ({"type": "video", "text": "a"}, "one of text, file, data"),
    ],
)
async def test_x01_a_legacy_type_must_fit_its_part(part: Json, why: str) -> None:
    async with open_world(**LEGACY) as world:
        error = (await rpc(world, "message/send", old(part))).json()["error"]
    assert error["code"] == -32602
    assert error["message"].startswith("message.parts[0].type: ")
    assert why in error["message"]


NAMES = {
    "SendMessage": ("message/send", "message.send", "sendMessage", "SendMessage"),
    "GetTask": ("tasks/get", "tasks.get", "getTask", "GetTask"),
    "ListTasks": ("tasks/list", "tasks.list", "listTasks", "ListTasks"),
    "CancelTask": ("tasks/cancel", "tasks.cancel", "cancelTask", "CancelTask"),
    "GetExtendedAgentCard": (
        "agent/getAuthenticatedExtendedCard",
        "agent.getAuthenticatedExtendedCard",
        "getExtendedAgentCard",
        "GetExtendedAgentCard",
    ),
}
PARAMS = {
    "SendMessage": old({"type": "text", "text": "say hi"}),
    "GetTask": {"id": "nobody"},
    "ListTasks": {},
    "CancelTask": {"id": "nobody"},
    "GetExtendedAgentCard": {},
}


@pytest.mark.parametrize(
    ("operation", "name"), [(key, name) for key, names in NAMES.items() for name in names]
)
async def test_d37_legacy_names_of_methods_mean_0_3(operation: str, name: str) -> None:
    async with open_world(**LEGACY) as world:
        body = (await rpc(world, name, PARAMS[operation])).json()
    match operation:
        case "SendMessage":
            assert body["result"]["kind"] == "task"
            assert body["result"]["status"]["state"] == "completed"
        case "ListTasks":
            assert body["result"]["tasks"] == []
        case "GetExtendedAgentCard":
            assert body["error"]["code"] == -32007
        case _:
            assert body["error"]["code"] == -32001


@pytest.mark.parametrize("name", ["message.send", "sendMessage"])
@pytest.mark.parametrize("keys", [{}, ONLY_03], ids=["auto", "v0.3"])
async def test_d37_legacy_names_are_for_the_legacy_dialect_alone(keys: Json, name: str) -> None:
    async with open_world(**keys) as world:
        assert (await rpc(world, name, old(TEXT))).json()["error"]["code"] == -32601


async def test_d35_tasks_list() -> None:
    async with open_world(**LEGACY) as world:
        for number in range(3):
            await world.clock.advance(1)
            parts = {"type": "text", "text": "ask which?" if number == 1 else "say hi"}
            await rpc(world, "message/send", old(parts, contextId=f"c-{number % 2}"))

        async def listed(**params: Any) -> Json:
            page: Json = (await rpc(world, "tasks/list", params)).json()["result"]
            return page

        page = await listed()
        assert (page["pageSize"], page["totalSize"], page["nextPageToken"]) == (3, 3, "")
        # Newest first, and no artifacts unless they are asked for.
        times = [task["status"]["timestamp"] for task in page["tasks"]]
        assert times == sorted(times, reverse=True)
        assert not any("artifacts" in task for task in page["tasks"])
        assert any("artifacts" in task for task in (await listed(includeArtifacts=True))["tasks"])
        first = await listed(pageSize=2)
        assert (first["pageSize"], first["totalSize"]) == (2, 3)
        rest = await listed(pageSize=2, pageToken=first["nextPageToken"])
        assert (rest["pageSize"], rest["nextPageToken"]) == (1, "")
        assert (await listed(contextId="c-0"))["totalSize"] == 2
        assert (await listed(status="input-required"))["totalSize"] == 1
        # The bound itself counts.
        assert (await listed(statusTimestampAfter=times[1]))["totalSize"] == 2


@pytest.mark.parametrize(
    "params",
    [
        {"pageSize": 0},
        {"pageSize": 101},
        {"historyLength": -1},
        {"status": "asleep"},
        {"statusTimestampAfter": "yesterday"},
    ],
)
async def test_d35_bad_parameters_of_tasks_list(params: Json) -> None:
    async with open_world(**LEGACY) as world:
        error = (await rpc(world, "tasks/list", params)).json()["error"]
    assert error["code"] == -32602
    assert next(iter(params)) in error["message"]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (old(), -32602),
        (old(TEXT, role=None), -32602),
        (old(TEXT, messageId=None), -32602),
        (old(TEXT, taskId="nobody"), -32001),
    ],
)
async def test_d36_what_a_send_needs(params: Json, code: int) -> None:
    async with open_world(**LEGACY) as world:
        assert (await rpc(world, "message/send", params)).json()["error"]["code"] == code


async def test_d36_ended_tasks_and_other_contexts() -> None:
    async with open_world(**LEGACY) as world:
        ended = (await rpc(world, "message/send", old(TEXT))).json()["result"]
        again = await rpc(world, "message/send", old(TEXT, taskId=ended["id"]))
        asked = {"kind": "text", "text": "ask which?"}
        waits = (await rpc(world, "message/send", old(asked, contextId="a"))).json()["result"]
        other = await rpc(world, "message/send", old(TEXT, taskId=waits["id"], contextId="b"))
    assert again.json()["error"]["code"] == -32004
    assert other.json()["error"]["code"] == -32602
