"""The agents of an OpenClaw, and the tools with which they reach its machine."""

from typing import Any, Final

from trunkline.backends.json_values import tables
from trunkline.backends.openclaw.connection import Connection
from trunkline.backends.openclaw.failures import Trouble, misconfigured
from trunkline.ports.backend import Finding

# Tools that reach OpenClaw's machine, or the people and systems that OpenClaw has access to.
HOST_TOOLS: Final = frozenset(
    {
        *("exec", "process", "terminal", "code_execution", "secrets", "gateway", "nodes"),
        *("read", "write", "edit", "apply_patch", "ls", "file_fetch", "file_write"),
        *("dir_fetch", "dir_list", "computer", "browser", "message", "cron", "automations"),
        *("sessions_send", "sessions_spawn", "plugins", "openclaw"),
    }
)
_SHOWN: Final = 6
# OpenClaw lists the tools of an agent only for a session, so the check has a session of its own.
CHECK_SESSION: Final = "agent:{}:br-trunkline-check"


async def check_agent(connection: Connection, agent_id: str) -> None:
    """Raise Trouble unless the agent is configured: some releases run any agent, with all tools."""
    if connection.agent_ids is None:
        fields = await connection.ask("agents.list", {})
        connection.agent_ids = frozenset(
            str(agent.get("id", "")).lower() for agent in tables(fields.get("agents"))
        )
    if agent_id.lower() not in connection.agent_ids:
        raise no_such_agent(agent_id, connection.agent_ids)


def no_such_agent(agent_id: str, known: frozenset[str]) -> Trouble:
    return misconfigured(
        f"OpenClaw has no agent {agent_id!r}; it has {', '.join(sorted(known)) or 'none'}",
        "Correct the backend's `agent_id`, or add the agent to OpenClaw.",
    )


async def host_tools(connection: Connection, agent_id: str) -> tuple[str, ...] | None:
    """The tools of the agent that reach beyond the conversation; None if OpenClaw lists none."""
    key = CHECK_SESSION.format(agent_id.lower())
    asked: dict[str, Any] = {"sessionKey": key, "agentId": agent_id}
    response = await connection.call("tools.effective", asked)
    if not response.ok:
        await connection.ask("sessions.create", {"key": key, "agentId": agent_id})
        response = await connection.call("tools.effective", asked)
    if not response.ok:
        return None
    names = {
        str(tool.get("id", ""))
        for group in tables(response.fields.get("groups"))
        for tool in tables(group.get("tools"))
    }
    return tuple(sorted(names & HOST_TOOLS))


def host_tools_finding(agent_id: str, tools: tuple[str, ...]) -> Finding:
    shown = ", ".join(tools[:_SHOWN]) + (", …" if len(tools) > _SHOWN else "")
    return Finding(
        "warning",
        f"whoever may call the agent {agent_id} can use tools of OpenClaw's machine: {shown}",
        'Give the agent `tools: { deny: ["*"] }` in OpenClaw\'s configuration, or expose another.',
    )
