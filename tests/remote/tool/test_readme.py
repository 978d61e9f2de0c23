"""The examples in the README of the plugin: the requests as they are, the envelopes they give."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.remote.tool.world import SUPPORT, World, card, message

from trunkline.model.card import AgentCapabilities, AgentInterface, AgentSkill
from trunkline.model.values import Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from trunkline.remote.tool import HandleRecord
from trunkline.testing import FakeClock

CONFIG = json.loads(
    """
    {
      "enabled": true,
      "defaults": {
        "timeoutMs": 120000,
        "cardPath": "/.well-known/agent-card.json",
        "preferredTransports": ["JSONRPC", "HTTP+JSON"],
        "serviceParameters": {}
      },
      "targets": [
        {
          "alias": "support",
          "baseUrl": "https://support.example",
          "description": "Primary support lane",
          "tags": ["support"],
          "examples": ["Summarize this incident and propose next steps."],
          "default": true
        }
      ],
      "taskHandles": {"ttlMs": 86400000, "maxEntries": 1000},
      "policy": {
        "acceptedOutputModes": [],
        "normalizeBaseUrl": true,
        "enforceSupportedTransports": true,
        "allowTargetUrlOverride": false
      }
    }
    """
)
HANDLE = "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0"
TARGET = {
    "target_url": "https://support.example/",
    "card_path": "/.well-known/agent-card.json",
    "preferred_transports": ["JSONRPC", "HTTP+JSON"],
    "target_alias": "support",
}
CONVERSATION = {"context_id": "ctx-456", "can_send": True}
ENDED = {
    "task_id": "task-456",
    "status": "completed",
    "can_resume_send": False,
    "can_send": False,
    "can_status": True,
    "can_cancel": False,
    "can_watch": False,
}
BY_HANDLE = {
    "target": TARGET,
    "task": {"task_handle": HANDLE, "task_id": "task-456"},
    "conversation": CONVERSATION,
}
# 2026-03-12T10:00:00Z
NOW_MS = 1_773_309_600_000


def task_456(state: TaskState) -> Task:
    return Task(id="task-456", context_id="ctx-456", status=TaskStatus(state=state))


SUPPORT_CARD = replace(
    card(),
    description="Summarize incidents and propose next actions.",
    supported_interfaces=(
        AgentInterface(
            url="https://support.example/a2a/jsonrpc",
            protocol_binding="JSONRPC",
            protocol_version="1.0",
        ),
        AgentInterface(
            url="https://support.example/a2a/rest",
            protocol_binding="HTTP+JSON",
            protocol_version="1.0",
        ),
    ),
    capabilities=AgentCapabilities(
        streaming=True, push_notifications=True, state_transition_history=True
    ),
    skills=(
        AgentSkill(
            id="triage",
            name="Incident Triage",
            description="Summarize incidents and propose next actions.",
            tags=("support",),
            examples=("Summarize this incident and propose next steps.",),
            input_modes=("application/json",),
            output_modes=("application/pdf",),
        ),
    ),
)


@pytest.fixture
def world() -> World:
    world = World(CONFIG, clock=FakeClock(NOW_MS))
    world.peers.says(SUPPORT, "card", SUPPORT_CARD)
    return world


async def with_handle(world: World, *, ttl_ms: int = 86_400_000) -> None:
    record = HandleRecord(
        handle=HANDLE,
        target_url=SUPPORT,
        card_path="/.well-known/agent-card.json",
        transports=("JSONRPC", "HTTP+JSON"),
        target_alias="support",
        task_id="task-456",
        context_id="ctx-456",
        created_at_ms=NOW_MS,
        last_accessed_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + ttl_ms,
    )
    await world.handles.put(record, now_ms=NOW_MS, room=10)


def contains(found: Any, documented: Any) -> None:
    """The README shows what matters; every member that it shows is there and equal."""
    if isinstance(documented, dict):
        for name, value in documented.items():
            assert name in found, name
            contains(found[name], value)
    else:
        assert found == documented


async def test_readme_discover_available_targets(world: World) -> None:
    result = await world(action="list_targets")
    skill = {
        "id": "triage",
        "name": "Incident Triage",
        "description": "Summarize incidents and propose next actions.",
        "tags": ["support"],
        "examples": ["Summarize this incident and propose next steps."],
    }
    interfaces = [
        {"transport": "JSONRPC", "url": "https://support.example/a2a/jsonrpc"},
        {"transport": "HTTP+JSON", "url": "https://support.example/a2a/rest"},
    ]
    modes = {"input_modes": ["application/json"], "output_modes": ["application/pdf"]}
    assert result == {
        "ok": True,
        "operation": "remote_agent",
        "action": "list_targets",
        "summary": {
            "targets": [
                {
                    "target_alias": "support",
                    "target_url": "https://support.example/",
                    "default": True,
                    "tags": ["support"],
                    "examples": ["Summarize this incident and propose next steps."],
                    "target_name": "Support Agent",
                    "description": "Primary support lane",
                    # The summary of every other action has it; the example leaves it out.
                    "streaming_supported": True,
                    "peer_card": {
                        "preferred_transport": "JSONRPC",
                        "additional_interfaces": interfaces,
                        "capabilities": {
                            "streaming": True,
                            "push_notifications": True,
                            "state_transition_history": True,
                        },
                        "default_input_modes": ["text/plain"],
                        "default_output_modes": ["text/plain"],
                        "skills": [{**skill, **modes}],
                    },
                }
            ]
        },
        "raw": [
            {
                "target": {
                    "baseUrl": "https://support.example/",
                    "cardPath": "/.well-known/agent-card.json",
                    "preferredTransports": ["JSONRPC", "HTTP+JSON"],
                    "alias": "support",
                    "displayName": "Support Agent",
                    "description": "Primary support lane",
                    "streamingSupported": True,
                },
                "configuredDescription": "Primary support lane",
                "default": True,
                "tags": ["support"],
                "examples": ["Summarize this incident and propose next steps."],
                "card": {
                    "displayName": "Support Agent",
                    "description": "Summarize incidents and propose next actions.",
                    "preferredTransport": "JSONRPC",
                    "additionalInterfaces": interfaces,
                    "capabilities": {
                        "streaming": True,
                        "pushNotifications": True,
                        "stateTransitionHistory": True,
                    },
                    "defaultInputModes": ["text/plain"],
                    "defaultOutputModes": ["text/plain"],
                    "skills": [
                        {
                            **skill,
                            "inputModes": ["application/json"],
                            "outputModes": ["application/pdf"],
                        }
                    ],
                    "lastRefreshedAt": "2026-03-12T10:00:00.000Z",
                },
            }
        ],
    }


async def test_readme_send_to_an_explicit_target_alias(world: World) -> None:
    said = "Triage summary: reproduce, collect logs, and notify the on-call engineer."
    world.peers.says(SUPPORT, "send", message(said))
    result = await world(
        action="send",
        target_alias="support",
        parts=[{"kind": "text", "text": "Summarize this bug report for triage."}],
        metadata={"ticket_id": "INC-42"},
    )
    contains(
        result,
        {
            "ok": True,
            "operation": "remote_agent",
            "action": "send",
            "summary": {
                "target_alias": "support",
                "target_url": "https://support.example/",
                "response_kind": "message",
                "message_text": said,
            },
            "raw": {"kind": "message"},
        },
    )
    assert world.peers.sent().metadata == {"ticket_id": "INC-42"}


async def test_readme_require_a_durable_task(world: World) -> None:
    world.peers.says(SUPPORT, "send", task_456(TaskState.SUBMITTED))
    result = await world(
        action="send",
        target_alias="support",
        task_requirement="required",
        parts=[{"kind": "text", "text": "Start a trackable task and return immediately."}],
    )
    task = result["summary"]["continuation"]["task"]
    assert task["task_id"] == "task-456"
    assert task["can_watch"] is True


async def test_readme_start_related_work_without_continuing_a_task(world: World) -> None:
    world.peers.says(SUPPORT, "send", task_456(TaskState.COMPLETED))
    result = await world(
        action="send",
        target_alias="support",
        context_id="ctx-123",
        reference_task_ids=["task-101", "task-102"],
        parts=[{"kind": "text", "text": "Start a related task in the same conversation."}],
    )
    assert result["ok"]
    sent = world.peers.sent().message
    assert (sent.task_id, sent.context_id) == ("", "ctx-123")
    assert sent.reference_task_ids == ("task-101", "task-102")


async def test_readme_send_using_the_configured_default_target(world: World) -> None:
    update = TaskStatusUpdateEvent(
        task_id="task-456", context_id="ctx-456", status=TaskStatus(state=TaskState.COMPLETED)
    )
    world.peers.says(SUPPORT, "stream", [task_456(TaskState.SUBMITTED), update])
    result = await world(
        action="send",
        parts=[{"kind": "text", "text": "Draft a reply to the customer update."}],
        follow_updates=True,
    )
    final = {
        "kind": "status-update",
        "taskId": "task-456",
        "contextId": "ctx-456",
        "status": {"state": "completed"},
        "final": True,
    }
    handle = result["summary"]["continuation"]["task"]["task_handle"]
    assert result == {
        "ok": True,
        "operation": "remote_agent",
        "action": "send",
        "summary": {
            "target_alias": "support",
            "target_name": "Support Agent",
            "target_url": "https://support.example/",
            "streaming_supported": True,
            "response_kind": "task",
            "continuation": {
                "target": TARGET,
                "task": {"task_handle": handle, **ENDED},
                "conversation": CONVERSATION,
            },
        },
        "raw": {
            "events": [
                {
                    "kind": "task",
                    "id": "task-456",
                    "contextId": "ctx-456",
                    "status": {"state": "submitted"},
                },
                final,
            ],
            "finalEvent": final,
        },
    }


@pytest.mark.parametrize("has_handle", [True, False])
async def test_readme_continue_an_existing_remote_task(world: World, has_handle: bool) -> None:
    await with_handle(world)
    world.peers.says(SUPPORT, "send", task_456(TaskState.COMPLETED))
    task = {"task_handle": HANDLE, "task_id": "task-456"} if has_handle else {"task_id": "task-456"}
    result = await world(
        action="send",
        continuation={"target": TARGET, "task": task, "conversation": CONVERSATION},
        parts=[{"kind": "text", "text": "Approved. Continue with the task."}],
    )
    sent = world.peers.sent().message
    assert (sent.task_id, sent.context_id) == ("task-456", "ctx-456")
    handle = result["summary"]["continuation"]["task"]["task_handle"]
    assert (handle == HANDLE) is has_handle


async def test_readme_start_a_new_task_in_an_existing_conversation(world: World) -> None:
    said = "Conversation continued. Start the next task when ready."
    world.peers.says(SUPPORT, "send", message(said, context_id="ctx-456"))
    result = await world(
        action="send",
        continuation={"target": TARGET, "conversation": CONVERSATION},
        parts=[
            {
                "kind": "text",
                "text": "Start a new side task, but keep it in the same conversation.",
            }
        ],
    )
    contains(
        result,
        {
            "ok": True,
            "summary": {
                "target_alias": "support",
                "target_url": "https://support.example/",
                "response_kind": "message",
                "message_text": said,
            },
            "raw": {"kind": "message"},
        },
    )
    assert result["summary"]["continuation"] == {"target": TARGET, "conversation": CONVERSATION}


async def test_readme_check_task_status(world: World) -> None:
    await with_handle(world)
    world.peers.says(SUPPORT, "get", task_456(TaskState.COMPLETED))
    result = await world(action="status", continuation=BY_HANDLE, history_length=2)
    contains(
        result,
        {
            "ok": True,
            "operation": "remote_agent",
            "action": "status",
            "summary": {
                "target_alias": "support",
                "target_url": "https://support.example/",
                "response_kind": "task",
            },
            "raw": {"kind": "task", "id": "task-456", "status": {"state": "completed"}},
        },
    )
    assert result["summary"]["continuation"] == {
        "target": TARGET,
        "task": {"task_handle": HANDLE, **ENDED},
        "conversation": CONVERSATION,
    }
    assert world.peers.asked[-1].value == ("task-456", 2)


async def test_readme_a_handle_that_is_gone_falls_back_to_the_task_id(world: World) -> None:
    world.peers.says(SUPPORT, "get", task_456(TaskState.WORKING))
    task = {"task_handle": HANDLE, "task_id": "task-456"}
    result = await world(action="status", continuation={"target": TARGET, "task": task})
    assert result["summary"]["continuation"]["task"]["task_id"] == "task-456"


@pytest.mark.parametrize(("action", "method"), [("watch", "subscribe"), ("cancel", "cancel")])
async def test_readme_watch_and_cancel(world: World, action: str, method: str) -> None:
    await with_handle(world)
    ended = task_456(TaskState.CANCELED)
    world.peers.says(SUPPORT, method, [ended] if method == "subscribe" else ended)
    task = {"task_handle": HANDLE, "task_id": "task-456"}
    result = await world(action=action, continuation={"target": TARGET, "task": task})
    assert result["summary"]["continuation"]["task"]["status"] == "canceled"


async def test_readme_validation_error() -> None:
    world = World({**CONFIG, "targets": []})
    result = await world(action="send", parts=[{"kind": "text", "text": "x"}])
    contains(
        result,
        {
            "ok": False,
            "operation": "remote_agent",
            "action": "send",
            "error": {
                "code": "VALIDATION_ERROR",
                "message": "remote_agent input validation failed",
                "details": {"source": "ajv", "tool": "remote_agent"},
            },
        },
    )
    (error,) = result["error"]["details"]["errors"]
    contains(
        error,
        {
            "keyword": "anyOf",
            "instancePath": "",
            "message": "send requires task_handle, target_alias, target_url, or a configured "
            "default target",
        },
    )


async def test_readme_expired_handle(world: World) -> None:
    await with_handle(world, ttl_ms=1000)
    await world.clock.advance(1)
    result = await world(action="status", task_handle=HANDLE)
    contains(
        result,
        {
            "ok": False,
            "operation": "remote_agent",
            "action": "status",
            "error": {
                "code": "EXPIRED_TASK_HANDLE",
                "message": f'task handle "{HANDLE}" has expired',
                "details": {
                    "taskHandle": HANDLE,
                    "retryHint": "Retry with the same nested continuation so the plugin can fall "
                    "back to the persisted target plus taskId, or resend the original request "
                    "after a restart to obtain a new handle.",
                    "restartInvalidatesHandles": True,
                    "suggested_actions": ["status", "send"],
                    "hint": "Retry with the same nested continuation, or use flat target_alias + "
                    "task_id only as manual compatibility.",
                },
            },
        },
    )
