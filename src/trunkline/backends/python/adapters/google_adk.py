"""Google ADK: an agent, an app or a runner of ADK as a Trunkline agent."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

from trunkline.backends.python.adapters.conversations import (
    EventReading,
    Recent,
    conversation_id,
    earlier,
    plain,
    told,
    user_id,
)
from trunkline.backends.python.decorator import Agent, named_after
from trunkline.backends.python.turn import Turn
from trunkline.model.outputs import Output
from trunkline.model.values import Part, Role

_log = logging.getLogger("trunkline.backends.python")


def adk_agent(adk: Any, **about: Any) -> Agent:
    """An agent, an app or a runner as an agent; `about` is what `@agent` takes.

    A runner brings its own session service. The others get one in memory, which receives the
    earlier messages of a conversation at its first turn after a restart.
    """
    agent = getattr(adk, "root_agent", None) or getattr(adk, "agent", None) or adk
    about.setdefault("description", getattr(agent, "description", "") or "")
    if about.get("slug", "root-agent") == "root-agent":
        # ADK wants this name in every file, so it describes no agent.
        about |= named_after(str(agent.name))
    return Agent(AdkAgent(adk), **about)


class AdkAgent:
    def __init__(self, adk: Any) -> None:
        self._adk = adk
        is_runner = hasattr(adk, "run_async") and hasattr(adk, "session_service")
        self._runner: Any = adk if is_runner else None
        self._owns_sessions = self._runner is None
        self._sessions = Recent()
        self._opening = asyncio.Lock()

    async def __call__(self, turn: Turn) -> AsyncGenerator[object, None]:
        from google.adk.agents.run_config import RunConfig, StreamingMode

        runner = self._runner = self._runner or _runner_for(self._adk)
        user, session = user_id(turn), conversation_id(turn)
        await self._open(runner, turn, user, session)
        reading = AdkReading()
        running = runner.run_async(
            user_id=user,
            session_id=session,
            new_message=_content("user", turn.parts),
            run_config=RunConfig(streaming_mode=StreamingMode.SSE),
        )
        try:
            async for event in running:
                for output in reading.feed(event):
                    yield output
        finally:
            await running.aclose()
        if reading.error:
            _log.warning(
                "a run of ADK failed", extra={"task": turn.task_id, "why": reading.error[:500]}
            )
            yield turn.fail("The agent's model gave no answer.")
        else:
            yield turn.answer(metadata=reading.usage())

    async def _open(self, runner: Any, turn: Turn, user: str, session_id: str) -> None:
        """Create the session if there is none, with the earlier messages of the conversation."""
        service, app = runner.session_service, runner.app_name
        async with self._opening:
            names = {"app_name": app, "user_id": user, "session_id": session_id}
            if await service.get_session(**names) is None:
                session = await service.create_session(**names)
                await _tell(service, session, turn, author=runner.agent.name)
            if self._owns_sessions:
                await self._forget(service, app, f"{user}\n{session_id}")

    async def _forget(self, service: Any, app: str, newest: str) -> None:
        gone = self._sessions.put(newest, None)
        if gone is not None:
            user, _, session_id = gone.partition("\n")
            await service.delete_session(app_name=app, user_id=user, session_id=session_id)


class AdkReading(EventReading):
    def __init__(self) -> None:
        super().__init__()
        self.error = ""
        # Whether the message under way came in pieces, so that its last event repeats them.
        self._is_streaming = False

    def feed(self, event: Any) -> list[Output]:
        if event.error_code or event.error_message:
            self.error = f"{event.error_code}: {event.error_message}"
            return []
        if event.partial:
            outputs = self._say(_text(event), is_apart=not self._is_streaming)
            self._is_streaming = self._is_streaming or bool(outputs)
            return outputs
        if (used := event.usage_metadata) is not None:
            answered = used.candidates_token_count
            self._count(used.prompt_token_count, answered, used.total_token_count)
        outputs = [] if self._is_streaming else self._say(_text(event), is_apart=True)
        self._is_streaming = False
        for call in event.get_function_calls():
            outputs.append(self._call(call.id, call.name, call.args))
        for answer in event.get_function_responses():
            value = plain(answer.response)
            is_error = isinstance(value, dict) and "error" in value
            outputs += self._result(answer.id, value, is_error=is_error)
        return outputs


def _text(event: Any) -> str:
    parts = event.content.parts if event.content is not None else None
    return "".join(part.text for part in parts or () if part.text and not part.thought)


def _runner_for(adk: Any) -> Any:
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService

    sessions = InMemorySessionService()
    if hasattr(adk, "root_agent") and hasattr(adk, "plugins"):
        return Runner(app=adk, session_service=sessions)
    return Runner(app_name="trunkline", agent=adk, session_service=sessions)


async def _tell(service: Any, session: Any, turn: Turn, *, author: str) -> None:
    from google.adk.events import Event

    for message in await earlier(turn):
        is_user = message.role is Role.USER
        event = Event(
            author="user" if is_user else author,
            content=_content("user" if is_user else "model", message.parts),
        )
        await service.append_event(session, event)


def _content(role: str, parts: tuple[Part, ...]) -> Any:
    from google.genai import types

    def part(given: Part) -> Any:
        if given.raw is None:
            return types.Part(text=told((given,)))
        kind = given.media_type or "application/octet-stream"
        return types.Part(inline_data=types.Blob(data=given.raw, mime_type=kind))

    return types.Content(role=role, parts=[part(one) for one in parts])
