"""Whatever comes in, one envelope comes out; and nobody is asked about what is not valid."""

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.remote.tool.world import (
    HELLO,
    SUPPORT,
    World,
    artifact,
    card,
    continuation,
    made,
    message,
    moved,
    task,
)

from trunkline.model.values import Part, TaskState
from trunkline.remote.errors import PeerRefused, PeerUnreachable
from trunkline.remote.progress import Progress
from trunkline.remote.tool import input_schema
from trunkline.remote.tool.failures import ToolFailure
from trunkline.remote.tool.schema import ACTIONS
from trunkline.remote.tool.validation import as_json, problems_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELD = st.sampled_from(sorted(input_schema()["properties"]))
# Values that fit some field, so that requests get past the schema.
LIKELY = st.sampled_from(
    [
        *ACTIONS,
        HELLO,
        "support",
        SUPPORT,
        "rah_x",
        "task-1",
        True,
        False,
        0,
        1,
        50.0,
        10**400,
        [],
        ["x"],
        {},
        {"X-A": "b"},
        {"X-A": "b\n"},
        "required",
        continuation(task={"task_id": "task-1"}),
        continuation(conversation={"context_id": "c"}),
        {"url": "https://hook.example", "authentication": {"schemes": ["Bearer"]}},
        [{"kind": "file", "bytes": "aGk"}],
        [{"kind": "file", "uri": "https://x/y.pdf"}, {"kind": "data", "data": {}}],
    ]
)
REQUEST = st.builds(
    lambda action, fields: {"action": action, **fields},
    st.sampled_from([*ACTIONS, "fly"]),
    st.dictionaries(FIELD, LIKELY | JSON, max_size=5),
)


def world() -> World:
    made_up = World()
    made_up.peers.says(SUPPORT, "card", card())
    made_up.peers.says(SUPPORT, "send", task(TaskState.INPUT_REQUIRED))
    made_up.peers.says(SUPPORT, "get", PeerRefused("no", code=-32001))
    made_up.peers.says(SUPPORT, "cancel", task(id="other"))
    made_up.peers.says(SUPPORT, "stream", [message("hi"), PeerUnreachable("gone")])
    made_up.peers.says(SUPPORT, "subscribe", [moved(TaskState.COMPLETED)])
    return made_up


def check(request: Any) -> None:
    tool = world()
    result = asyncio.run(tool.tool(request, on_update=tool.updates.append))
    assert result["operation"] == "remote_agent"
    assert isinstance(result["action"], str)
    assert json.loads(json.dumps(result)) == result
    if result["ok"]:
        assert set(result) == {"ok", "operation", "action", "summary", "raw"}
        return
    assert set(result["error"]) <= {"code", "message", "details"}
    assert result["error"]["code"] != "INTERNAL_ERROR", result
    try:
        problems = problems_of(as_json(request), tool.tool.config)
    except ToolFailure:
        problems = [{}]
    if problems:
        assert result["error"]["code"] == "VALIDATION_ERROR"
        assert tool.peers.asked == []


@given(JSON)
def test_any_json_gives_an_envelope(request: Any) -> None:
    check(request)


@settings(max_examples=300)
@given(REQUEST)
def test_any_request_gives_an_envelope_and_validation_asks_nobody(request: Any) -> None:
    check(request)


@settings(max_examples=50)
@given(st.lists(st.text(), min_size=1, max_size=20))
def test_a_streamed_text_reads_as_one_whatever_its_pieces(words: list[str]) -> None:
    """The cost of a chunk does not depend on what came before, and neither does the result."""
    whole, pieces = Progress(), Progress()
    whole.add(task(TaskState.COMPLETED, artifacts=(artifact("".join(words)),)))
    pieces.add(task(TaskState.WORKING))
    for index, word in enumerate(words):
        pieces.add(made(artifact(word), append=index > 0))
    pieces.add(moved(TaskState.COMPLETED))
    assert pieces.answer() == whole.answer()
    assert pieces.task() == whole.task()
    assert pieces.artifacts()[0].parts == (Part(text="".join(words)),)
