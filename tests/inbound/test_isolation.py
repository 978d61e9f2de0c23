"""Two callers who use the same ids: each has tasks of its own, whatever the preset."""

from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Answer
from tests.bindings.clients import CLIENTS, Client, message
from tests.bindings.world import open_world

from trunkline.backends.python.settings import PythonBackend
from trunkline.settings.profiles import PRESETS

# What each preset speaks.
SPOKEN = {
    "standard": tuple(CLIENTS),
    "hub": tuple(CLIENTS),
    "openclaw-design": ("jsonrpc-0.3", "rest-0.3"),
    "openclaw-inbound": ("jsonrpc-0.3",),
}
# All operations at work, and a task for every message.
OPEN: dict[str, Any] = {
    "cancel": "supported",
    "list_tasks": "served",
    "agent_style": "task-generating",
    "history_default": "all",
    "context_mode": "session",
}
CASES = [(preset, dialect) for preset, dialects in SPOKEN.items() for dialect in dialects]


def test_all_presets_are_covered() -> None:
    assert set(SPOKEN) == set(PRESETS)


@pytest.mark.parametrize(("preset", "dialect"), CASES)
async def test_two_principals_with_the_same_ids_share_nothing(preset: str, dialect: str) -> None:
    async with open_world(**(PRESETS[preset] | OPEN)) as world:
        alice, bob = world.client(dialect, "alice"), world.client(dialect, "bob")
        sent = message("ask which?", context="shared", id="same")
        hers, his = await alice.run(sent), await bob.run(sent)
        assert hers["contextId"] == his["contextId"] == "shared"
        assert hers["id"] != his["id"]

        async def refusal(operation: str, params: Any) -> Answer:
            return await world.http.send(bob.request(operation, params))

        follow_up = message("say mine", task=hers["id"], context="shared", id="same")
        for operation, params in (
            ("GetTask", {"id": "{}"}),
            ("CancelTask", {"id": "{}"}),
            ("SubscribeToTask", {"id": "{}"}),
            ("SendMessage", {"message": follow_up}),
            ("SendStreamingMessage", {"message": follow_up}),
        ):
            foreign, unknown = [
                await refusal(operation, _with_task(params, task)) for task in (hers["id"], "none")
            ]
            # Not a byte tells a task of somebody else from one that does not exist.
            assert foreign.status == unknown.status
            assert b"not found" in foreign.body
            assert foreign.body.replace(hers["id"].encode(), b"none") == unknown.body
        page = await bob.list(contextId="shared")
        assert [task["id"] for task in page["tasks"]] == [his["id"]]
        mine = await alice.get(hers["id"])
        assert mine["status"] == hers["status"]
        assert len(mine["history"]) == 2
        assert len(world.agent.turns) == 2


def _with_task(params: Any, task: str) -> Any:
    if "message" in params:
        return {"message": params["message"] | {"taskId": task}}
    return {"id": task}


# Answers with all that was said before in the conversation.
RECALLS = """
from trunkline import agent, text_of

@agent
async def recalls(turn):
    before = await turn.transcript()
    return " | ".join(text_of(message.parts) for message in before) or "nothing"
"""


@pytest.mark.parametrize(("preset", "dialect"), CASES)
async def test_two_principals_with_the_same_ids_share_no_transcript(
    preset: str, dialect: str, tmp_path: Path
) -> None:
    (tmp_path / "recalls.py").write_text(RECALLS)
    backend = PythonBackend(target=str(tmp_path / "recalls.py"))
    async with open_world(**(PRESETS[preset] | OPEN | {"backend": backend})) as world:
        alice, bob = world.client(dialect, "alice"), world.client(dialect, "bob")

        async def told(client: Client, text: str) -> str:
            sent = message(text, context="shared", id="same")
            [answer] = (await client.send(sent)).values()
            said = answer.get("status", {}).get("message", answer)
            return str(said["parts"][0]["text"])

        assert await told(alice, "my secret") == "nothing"
        assert await told(bob, "hello") == "nothing"
        # Each has a past, which is its own.
        assert await told(alice, "again") == "my secret | nothing"
        assert await told(bob, "again") == "hello | nothing"
