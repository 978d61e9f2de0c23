"""The examples in the README of the plugin, as they are written, on agents that really run.

A Trunkline, a2a-sdk 1 that offers 1.0 or 0.3 alone, the last a2a-sdk of 0.3, and @a2a-js/sdk,
each the agent of `support.json`. `tests/remote/tool/test_readme.py` has the same to the last
member, on answers that are made up; here what an agent decides itself, ids and addresses, is
what it decided.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.a2a_sdk_server import SUPPORT
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import DEADLINE_S
from tests.acceptance.remote import sdk_server, served
from tests.acceptance.test_bridge import SDK03, SDK03_PYTHON
from tests.acceptance.test_js_sdk import FOLDER, INSTALLED

from trunkline.remote.tool import RemoteAgentTool, open_remote_agent

CONFIG = """
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
CODE = """
import asyncio, json
from pathlib import Path
from trunkline import agent

SUPPORT = json.loads(Path({path!r}).read_text("utf-8"))

@agent(direct=True)
async def support(turn):
    if turn.text in SUPPORT["messages"]:
        return turn.reply(SUPPORT["messages"][turn.text])
    if turn.text == SUPPORT["asks"]:
        return turn.ask("May I?")
    if turn.text == SUPPORT["hangs"]:
        await asyncio.Event().wait()
    return turn.text
"""
PEERS = ["trunkline", "a2a-sdk-1.0", "a2a-sdk-1-as-0.3", "a2a-sdk-0.3", "a2a-js"]


def trunkline_config(folder: Path) -> str:
    (folder / "support.py").write_text(
        CODE.replace("{path!r}", repr(str(Path(__file__).parent / "support.json")))
    )
    skill = SUPPORT["skill"]
    return f"""
[agents."test/support"]
name = "{SUPPORT["name"]}"
description = "{SUPPORT["description"]}"
default = true
input_modes = ["text/plain"]
output_modes = ["text/plain"]
backend = {{ kind = "python", target = "support.py:support" }}
[[agents."test/support".skills]]
id = "{skill["id"]}"
name = "{skill["name"]}"
description = "{skill["description"]}"
tags = {json.dumps(skill["tags"])}
examples = {json.dumps(skill["examples"])}
input_modes = {json.dumps(skill["inputModes"])}
output_modes = {json.dumps(skill["outputModes"])}
"""


@pytest.fixture(scope="module", params=PEERS)
def url(
    request: pytest.FixtureRequest, gateways: Make, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with ExitStack() as stack:
        match request.param:
            case "trunkline":
                folder = tmp_path_factory.mktemp("support")
                yield gateways(agents=trunkline_config(folder), folder=folder).start().url
            case "a2a-js":
                if not INSTALLED.exists():
                    pytest.skip("the packages of JavaScript are not installed: ./check javascript")
                server = str(FOLDER / "server.mjs")
                yield stack.enter_context(served("node", server, "--support", "--port"))
            case "a2a-sdk-0.3":
                if not SDK03_PYTHON.exists():
                    pytest.skip("a2a-sdk 0.3 is not installed: ./check peers")
                server = str(SDK03 / "server.py")
                yield stack.enter_context(served(str(SDK03_PYTHON), server, "--support", "--port"))
            case name:
                options = ("--support", "--versions", name.rpartition("-")[2], "--port")
                yield stack.enter_context(served(*sdk_server()[:-1], *options))


@pytest.fixture
async def tool(url: str, tmp_path: Path) -> AsyncIterator[RemoteAgentTool]:
    config = json.loads(CONFIG.replace("https://support.example", url))
    async with open_remote_agent(config, handles=tmp_path / "handles.db") as tool:
        yield tool


def contains(found: Any, documented: Any, at: str = "") -> None:
    """Every member that the README shows is there and equal."""
    if isinstance(documented, dict):
        assert isinstance(found, dict), at
        for name, value in documented.items():
            assert name in found, f"{at}.{name}"
            contains(found[name], value, f"{at}.{name}")
    else:
        assert found == documented, at


async def asked(tool: RemoteAgentTool, request: str, documented: str = "{}") -> dict[str, Any]:
    result = await tool(json.loads(request))
    assert result["ok"], result
    contains(result, json.loads(documented))
    return result


def with_url(text: str, url: str) -> str:
    return text.replace("https://support.example", url)


def routed(text: str, url: str, result: dict[str, Any]) -> str:
    """The request of the README with the ids of a task that there is, and not of another."""
    continuation = result["summary"]["continuation"]
    task = continuation.get("task", {})
    ids = {
        "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0": task.get("task_handle", ""),
        "task-456": task.get("task_id", ""),
        "ctx-456": continuation["conversation"]["context_id"],
    }
    for written, real in ids.items():
        text = text.replace(written, real)
    return with_url(text, url)


async def test_discover_available_targets(tool: RemoteAgentTool, url: str) -> None:
    result = await asked(tool, '{ "action": "list_targets" }')
    (listed,), (raw,) = result["summary"]["targets"], result["raw"]
    documented = """
    {
      "target_alias": "support",
      "target_url": "https://support.example/",
      "default": true,
      "tags": ["support"],
      "examples": ["Summarize this incident and propose next steps."],
      "target_name": "Support Agent",
      "description": "Primary support lane",
      "peer_card": {
        "preferred_transport": "JSONRPC",
        "capabilities": {"streaming": true},
        "default_input_modes": ["text/plain"],
        "default_output_modes": ["text/plain"],
        "skills": [
          {
            "id": "triage",
            "name": "Incident Triage",
            "description": "Summarize incidents and propose next actions.",
            "tags": ["support"],
            "examples": ["Summarize this incident and propose next steps."],
            "input_modes": ["application/json"],
            "output_modes": ["application/pdf"]
          }
        ]
      }
    }
    """
    contains(listed, json.loads(with_url(documented, url)))
    interfaces = listed["peer_card"]["additional_interfaces"]
    assert interfaces[0]["transport"] == "JSONRPC"
    assert all(one["url"].startswith(url) for one in interfaces)
    documented = """
    {
      "target": {
        "baseUrl": "https://support.example/",
        "cardPath": "/.well-known/agent-card.json",
        "preferredTransports": ["JSONRPC", "HTTP+JSON"],
        "alias": "support",
        "displayName": "Support Agent",
        "description": "Primary support lane",
        "streamingSupported": true
      },
      "configuredDescription": "Primary support lane",
      "default": true,
      "tags": ["support"],
      "examples": ["Summarize this incident and propose next steps."],
      "card": {
        "displayName": "Support Agent",
        "description": "Summarize incidents and propose next actions.",
        "preferredTransport": "JSONRPC"
      }
    }
    """
    contains(raw, json.loads(with_url(documented, url)))
    assert raw["card"]["lastRefreshedAt"].endswith("Z")


async def test_send_to_an_explicit_target_alias(tool: RemoteAgentTool, url: str) -> None:
    said = "Triage summary: reproduce, collect logs, and notify the on-call engineer."
    await asked(
        tool,
        """
        {
          "action": "send",
          "target_alias": "support",
          "parts": [{"kind": "text", "text": "Summarize this bug report for triage."}],
          "metadata": {"ticket_id": "INC-42"}
        }
        """,
        with_url(
            """
            {
              "ok": true,
              "operation": "remote_agent",
              "action": "send",
              "summary": {
                "target_alias": "support",
                "target_url": "https://support.example/",
                "response_kind": "message",
                "message_text": "SAID"
              },
              "raw": {"kind": "message"}
            }
            """.replace("SAID", said),
            url,
        ),
    )


DURABLE = """
{
  "action": "send",
  "target_alias": "support",
  "task_requirement": "required",
  "parts": [{"kind": "text", "text": "Start a trackable task and return immediately."}]
}
"""
WATCH = """
{
  "action": "watch",
  "continuation": {
    "target": {
      "target_url": "https://support.example/",
      "card_path": "/.well-known/agent-card.json",
      "preferred_transports": ["JSONRPC", "HTTP+JSON"],
      "target_alias": "support"
    },
    "task": {
      "task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0",
      "task_id": "task-456"
    }
  }
}
"""


async def test_require_a_durable_task_watch_it_and_cancel_it(
    tool: RemoteAgentTool, url: str
) -> None:
    started = await asked(tool, DURABLE)
    task = started["summary"]["continuation"]["task"]
    assert (task["can_watch"], task["can_cancel"]) == (True, True)
    assert task["status"] in ("submitted", "working")
    seen = asyncio.Event()
    watching = asyncio.gather(
        tool(json.loads(routed(WATCH, url, started)), on_update=lambda _: seen.set())
    )
    await asyncio.wait_for(seen.wait(), DEADLINE_S)
    canceled = await asked(tool, routed(WATCH, url, started).replace('"watch"', '"cancel"'))
    assert canceled["summary"]["continuation"]["task"]["status"] == "canceled"
    (watched,) = await asyncio.wait_for(watching, DEADLINE_S)
    assert watched["summary"]["continuation"]["task"]["status"] == "canceled"
    assert watched["summary"]["continuation"]["task"]["task_handle"] == task["task_handle"]


async def test_start_related_work_without_continuing_a_task(tool: RemoteAgentTool) -> None:
    result = await asked(
        tool,
        """
        {
          "action": "send",
          "target_alias": "support",
          "context_id": "ctx-123",
          "reference_task_ids": ["task-101", "task-102"],
          "parts": [{"kind": "text", "text": "Start a related task in the same conversation."}]
        }
        """,
    )
    assert result["summary"]["continuation"]["conversation"]["context_id"] == "ctx-123"


COMPLETED = """
{
  "ok": true,
  "operation": "remote_agent",
  "action": "send",
  "summary": {
    "target_alias": "support",
    "target_url": "https://support.example/",
    "response_kind": "task",
    "continuation": {
      "target": {
        "target_url": "https://support.example/",
        "card_path": "/.well-known/agent-card.json",
        "preferred_transports": ["JSONRPC", "HTTP+JSON"],
        "target_alias": "support"
      },
      "task": {
        "status": "completed",
        "can_resume_send": false,
        "can_send": false,
        "can_status": true,
        "can_cancel": false,
        "can_watch": false
      },
      "conversation": {"can_send": true}
    }
  }
}
"""


async def test_send_using_the_configured_default_target(tool: RemoteAgentTool, url: str) -> None:
    result = await asked(
        tool,
        """
        {
          "action": "send",
          "parts": [{"kind": "text", "text": "Draft a reply to the customer update."}],
          "follow_updates": true
        }
        """,
        with_url(COMPLETED, url),
    )
    task = result["summary"]["continuation"]["task"]
    first, *_, last = result["raw"]["events"]
    assert (first["kind"], first["id"]) == ("task", task["task_id"])
    contains(
        last,
        {
            "kind": "status-update",
            "taskId": task["task_id"],
            "contextId": result["summary"]["continuation"]["conversation"]["context_id"],
            "status": {"state": "completed"},
            "final": True,
        },
    )
    assert result["raw"]["finalEvent"] == last


@pytest.mark.parametrize("has_handle", [True, False], ids=["task_handle", "task_id"])
async def test_continue_an_existing_remote_task(
    tool: RemoteAgentTool, url: str, has_handle: bool
) -> None:
    waits = await tool(
        {"action": "send", "parts": [{"kind": "text", "text": SUPPORT["asks"]}]},
    )
    before = waits["summary"]["continuation"]["task"]
    assert (before["status"], before["can_resume_send"]) == ("input-required", True)
    request = """
    {
      "action": "send",
      "continuation": {
        "target": {
          "target_url": "https://support.example/",
          "card_path": "/.well-known/agent-card.json",
          "preferred_transports": ["JSONRPC", "HTTP+JSON"],
          "target_alias": "support"
        },
        "task": {
          "task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0",
          "task_id": "task-456"
        },
        "conversation": {"context_id": "ctx-456", "can_send": true}
      },
      "parts": [
        {"kind": "text", "text": "Approved. Continue with the task and finish the reply."}
      ]
    }
    """
    if not has_handle:
        handle = '"task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0",'
        assert handle in request
        request = request.replace(handle, "")
    done = await asked(tool, routed(request, url, waits), with_url(COMPLETED, url))
    after = done["summary"]["continuation"]["task"]
    assert after["task_id"] == before["task_id"]
    assert (after["task_handle"] == before["task_handle"]) is has_handle


async def test_start_a_new_task_in_an_existing_conversation(
    tool: RemoteAgentTool, url: str
) -> None:
    said = await tool(
        {
            "action": "send",
            "parts": [{"kind": "text", "text": "Summarize this bug report for triage."}],
            "context_id": "ctx-456",
        }
    )
    continuation = """
    {
      "target": {
        "target_url": "https://support.example/",
        "card_path": "/.well-known/agent-card.json",
        "preferred_transports": ["JSONRPC", "HTTP+JSON"],
        "target_alias": "support"
      },
      "conversation": {"context_id": "ctx-456", "can_send": true}
    }
    """
    assert said["summary"]["continuation"] == json.loads(with_url(continuation, url))
    result = await asked(
        tool,
        with_url(
            """
            {
              "action": "send",
              "continuation": CONTINUATION,
              "parts": [
                {
                  "kind": "text",
                  "text": "Start a new side task, but keep it in the same conversation."
                }
              ]
            }
            """.replace("CONTINUATION", continuation),
            url,
        ),
        with_url(
            """
            {
              "ok": true,
              "operation": "remote_agent",
              "action": "send",
              "summary": {
                "target_alias": "support",
                "target_url": "https://support.example/",
                "response_kind": "message",
                "message_text": "Conversation continued. Start the next task when ready.",
                "continuation": CONTINUATION
              },
              "raw": {"kind": "message"}
            }
            """.replace("CONTINUATION", continuation),
            url,
        ),
    )
    assert "task" not in result["summary"]["continuation"]


async def test_check_task_status_with_task_handle(tool: RemoteAgentTool, url: str) -> None:
    done = await tool({"action": "send", "parts": [{"kind": "text", "text": "Reply."}]})
    request = """
    {
      "action": "status",
      "continuation": {
        "target": {
          "target_url": "https://support.example/",
          "card_path": "/.well-known/agent-card.json",
          "preferred_transports": ["JSONRPC", "HTTP+JSON"],
          "target_alias": "support"
        },
        "task": {
          "task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0",
          "task_id": "task-456"
        },
        "conversation": {"context_id": "ctx-456", "can_send": true}
      },
      "history_length": 2
    }
    """
    documented = with_url(COMPLETED, url).replace('"action": "send"', '"action": "status"')
    result = await asked(tool, routed(request, url, done), documented)
    assert result["summary"]["continuation"] == done["summary"]["continuation"]
    task_id = done["summary"]["continuation"]["task"]["task_id"]
    contains(result["raw"], {"kind": "task", "id": task_id, "status": {"state": "completed"}})
