"""pydantic-ai: its agents as Trunkline agents."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from trunkline.backends.python.adapters.conversations import (
    EventReading,
    earlier,
    plain,
    told,
    usage_of,
)
from trunkline.backends.python.decorator import Agent
from trunkline.backends.python.turn import Turn
from trunkline.model.outputs import Output
from trunkline.model.values import Message, Part, Role

_log = logging.getLogger("trunkline.backends.python")

_NOTE: Final = "pydantic-ai messages"
# Of a longer history the model gets only the transcript as text, like every other agent.
_MAX_HISTORY_BYTES: Final = 1024 * 1024


def pydantic_ai_agent(
    agent: Any, *, deps: Callable[[Turn], Any] | None = None, **about: Any
) -> Agent:
    """The agent; `deps` makes its dependencies for a turn, `about` is what `@agent` takes.

    The gateway keeps the model's messages with the conversation, calls of tools included.
    """
    return Agent(PydanticAgent(agent, deps), **about)


class PydanticAgent:
    def __init__(self, agent: Any, deps: Callable[[Turn], Any] | None) -> None:
        self._agent = agent
        self._deps = deps

    async def __call__(self, turn: Turn) -> AsyncGenerator[object, None]:
        history = await _history(turn)
        options = {} if self._deps is None else {"deps": self._deps(turn)}
        reading = PydanticReading()
        async with AsyncExitStack() as stack:
            events = self._agent.run_stream_events(
                _prompt(turn.parts), message_history=history or None, **options
            )
            if hasattr(events, "__aenter__"):
                events = await stack.enter_async_context(events)
            async for event in events:
                for output in reading.feed(event):
                    yield output
        result = reading.result
        if turn.session_key:
            await _keep(turn, result)
        yield turn.answer(*_answer(result.output, reading), metadata=_usage(result))


class PydanticReading(EventReading):
    """`result` is the last event."""

    def __init__(self) -> None:
        super().__init__()
        self.result: Any = None
        # Whether the next text begins another message.
        self._is_apart = False

    def feed(self, event: Any) -> list[Output]:
        kind = event.event_kind
        if kind == "part_start" and event.part.part_kind == "text":
            return self._text(event.part.content)
        if kind == "part_delta" and event.delta.part_delta_kind == "text":
            return self._text(event.delta.content_delta)
        if kind == "function_tool_call":
            self._is_apart = True
            part = event.part
            arguments = part.args_as_dict() if part.args else None
            return [self._call(part.tool_call_id, part.tool_name, arguments)]
        if kind == "function_tool_result":
            part = event.part
            is_good = getattr(part, "outcome", "success") == "success"
            is_error = part.part_kind == "retry-prompt" or not is_good
            return self._result(part.tool_call_id, part.content, is_error=is_error)
        if kind == "agent_run_result":
            self.result = event.result
        return []

    def _text(self, text: str) -> list[Output]:
        outputs = self._say(text, is_apart=self._is_apart)
        self._is_apart = self._is_apart and not outputs
        return outputs


def _answer(value: Any, reading: PydanticReading) -> tuple[Part, ...]:
    """The part that the stream has not brought: data, or text of a run without a stream."""
    if not isinstance(value, str):
        return (Part(data=plain(value)),)
    return () if reading.has_spoken else (Part(text=value),)


async def _history(turn: Turn) -> list[Any]:
    """The kept messages of the model; without them, the transcript."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    kept = await turn.recall(_NOTE) if turn.session_key else None
    if kept:
        try:
            return list(ModelMessagesTypeAdapter.validate_json(kept))
        except ValueError:
            # Another release of pydantic-ai wrote it.
            about = {"task": turn.task_id, "context": turn.context_id}
            _log.warning("messages of pydantic-ai cannot be read; told as text", extra=about)
    return [_as_model_message(message) for message in await earlier(turn)]


async def _keep(turn: Turn, result: Any) -> None:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    messages = ModelMessagesTypeAdapter.dump_json(result.all_messages())
    # The store gets no history that is too long; the transcript replaces it.
    await turn.keep(_NOTE, messages.decode() if len(messages) <= _MAX_HISTORY_BYTES else "")


def _as_model_message(message: Message) -> Any:
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    text = told(message.parts)
    if message.role is Role.USER:
        return ModelRequest(parts=[UserPromptPart(content=text)])
    return ModelResponse(parts=[TextPart(content=text)])


def _prompt(parts: tuple[Part, ...]) -> Any:
    """The message as a string, or as a list if it has files."""
    from pydantic_ai import BinaryContent

    if all(part.raw is None for part in parts):
        return told(parts)
    return [
        told((part,))
        if part.raw is None
        else BinaryContent(data=part.raw, media_type=part.media_type or "application/octet-stream")
        for part in parts
    ]


def _usage(result: Any) -> dict[str, Any]:
    usage = result.usage
    # Older releases of pydantic-ai have a method.
    usage = usage if hasattr(usage, "input_tokens") else usage()
    given, said = int(usage.input_tokens or 0), int(usage.output_tokens or 0)
    return usage_of((given, said, given + said))
