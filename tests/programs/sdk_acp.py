"""An agent on the reference implementation of ACP, `agent-client-protocol`, which checks every
message against its types."""

import asyncio
from typing import Any

import acp
from acp import schema


class SdkAgent:
    def on_connect(self, conn: Any) -> None:
        self._client = conn
        self._cancelled = asyncio.Event()

    async def initialize(self, protocol_version: int, **more: Any) -> acp.InitializeResponse:
        able = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
        )
        return acp.InitializeResponse(protocol_version=protocol_version, agent_capabilities=able)

    async def new_session(self, cwd: str, **more: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id="sdk-session")

    async def load_session(self, cwd: str, session_id: str, **more: Any) -> Any:
        await self._say(session_id, "from long ago")
        return acp.LoadSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **more: Any) -> Any:
        return schema.SetSessionModeResponse()

    async def cancel(self, session_id: str, **more: Any) -> None:
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> acp.PromptResponse:
        self._cancelled.clear()
        kinds = ",".join(block.type for block in prompt)
        text = next(block.text for block in prompt if block.type == "text")
        if text == "hang":
            await self._say(session_id, "begun")
            await self._cancelled.wait()
            return acp.PromptResponse(stop_reason="cancelled")
        if text == "ask":
            await self._ask(session_id)
        elif text == "tool":
            await self._use_tool(session_id)
        else:
            await self._say(session_id, f"{kinds}: {text}")
        return acp.PromptResponse(stop_reason="end_turn")

    async def _ask(self, session_id: str) -> None:
        answer = await self._client.request_permission(
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(tool_call_id="1", title="make tea"),
            options=[
                schema.PermissionOption(option_id="y", name="Yes", kind="allow_once"),
                schema.PermissionOption(option_id="n", name="No", kind="reject_once"),
            ],
        )
        await self._say(session_id, f"chosen: {getattr(answer.outcome, 'option_id', None)}")

    async def _use_tool(self, session_id: str) -> None:
        for update in (
            acp.start_tool_call("1", "look", kind="read", raw_input={"path": "a"}),
            acp.update_tool_call("1", status="completed", raw_output={"lines": 2}),
            acp.update_plan([acp.plan_entry("rest")]),
        ):
            await self._client.session_update(session_id=session_id, update=update)

    async def _say(self, session_id: str, text: str) -> None:
        update = acp.update_agent_message_text(text)
        await self._client.session_update(session_id=session_id, update=update)


if __name__ == "__main__":
    agent: Any = SdkAgent()
    asyncio.run(acp.run_agent(agent))
