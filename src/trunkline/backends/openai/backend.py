"""`OpenAIBackend`: a model behind the `Backend` port, and `Turn`, one of its turns."""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from trunkline.backends.kind import Resources
from trunkline.backends.model_content import NotTaken
from trunkline.backends.openai import failures
from trunkline.backends.openai.answer import Answer
from trunkline.backends.openai.conversation import conversation
from trunkline.backends.openai.failures import ModelFailure
from trunkline.backends.openai.model_client import ModelClient
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.backends.openai.tool_calls import ToolCalls
from trunkline.backends.openai.wire import Usage
from trunkline.backends.turn_task import TurnTask, TurnTaskBackend
from trunkline.background import BackgroundTasks
from trunkline.model.errors import GatewayBug
from trunkline.model.outputs import Failed, Final, Output, Refused, StageStarted, Text
from trunkline.model.values import Message
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.tools import TurnTool
from trunkline.ports.wire_log import ClientTap

_log = logging.getLogger("trunkline.backends.openai")

# Messages of the transcript to read for each turn of the history: a turn may have several.
_MESSAGES_PER_TURN = 4
_FILTERED = "The model server stopped the answer: its filter does not allow the content."


class OpenAIBackend(TurnTaskBackend["Turn"]):
    """An agent that is a model with an OpenAI-compatible server."""

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        clock: Clock,
        tools: Sequence[TurnTool] = (),
        allow_private: bool = False,
        tap: ClientTap | None = None,
    ) -> None:
        super().__init__("openai")
        self._client = ModelClient(settings, tools, clock, allow_private=allow_private, tap=tap)

    def turn_task(self, turn: TurnRequest) -> "Turn":
        return Turn(turn, self.tasks, self._client)

    async def close(self) -> None:
        await super().close()
        await self._client.close()


class Turn(TurnTask):
    """One turn: ask, carry out tools, ask again, until the model has its answer."""

    def __init__(self, turn: TurnRequest, tasks: BackgroundTasks, client: ModelClient) -> None:
        super().__init__(turn, tasks)
        self._client = client
        self._settings = client.settings
        self._usage = Usage()
        # Whether the message under way has any text.
        self._has_spoken = False

    async def work(self) -> None:
        try:
            await self.channel.put(await self._outcome())
        except NotTaken as refusal:
            await self.channel.put(Refused(str(refusal)))
        except ModelFailure as failure:
            self._log(failure)
            await self.channel.put(Failed(failure.reason, failure.is_unreachable))

    async def _outcome(self) -> Output:
        messages = conversation(self._settings, await self._before(), self.turn.message)
        tools = ToolCalls(self._client.tools, self.turn, self.channel)
        for number in range(1, self._settings.max_tool_rounds + 2):
            answer = await self._answer(messages)
            if answer.finish_reason == "content_filter":
                return Refused(_FILTERED)
            if answer.refusal:
                return Refused(answer.refusal)
            # Not every server gives "tool_calls" as the reason of the end.
            if not answer.calls:
                return Final(metadata=self._metadata(answer))
            if number > self._settings.max_tool_rounds:
                break
            messages.append(answer.as_message())
            messages += await tools.run(answer.calls, number=number)
        raise failures.too_many_rounds(self._settings.max_tool_rounds)

    async def _answer(self, messages: list[dict[str, Any]]) -> Answer:
        answer = Answer(max_bytes=self._settings.max_answer_bytes)
        goes_on, self._has_spoken = self._has_spoken, False
        async with aclosing(self._client.ask(messages, answer)) as pieces:
            async for piece in pieces:
                if goes_on:
                    # The text before the tool calls is a separate message.
                    await self.channel.put(StageStarted())
                    goes_on = False
                self._has_spoken = True
                await self.channel.put(Text(piece))
        self._has_spoken = self._has_spoken or goes_on
        self._usage += answer.usage
        return answer

    async def _before(self) -> list[Message]:
        """The messages before this one, oldest first."""
        earlier: tuple[Message, ...] = ()
        turns = self._settings.max_history_turns
        if turns and self.turn.session is not None:
            earlier = await self.turn.session.transcript(limit=turns * _MESSAGES_PER_TURN)
        return [*earlier, *self.turn.history] if turns else []

    def _metadata(self, answer: Answer) -> dict[str, Any] | None:
        metadata: dict[str, Any] = {}
        if self._usage != Usage():
            metadata["usage"] = {
                "inputTokens": self._usage.prompt_tokens,
                "outputTokens": self._usage.completion_tokens,
                "totalTokens": self._usage.total_tokens,
            }
        if answer.finish_reason == "length":
            metadata["finishReason"] = "length"
        return metadata or None

    def _log(self, failure: ModelFailure) -> None:
        _log.warning(
            "the model gave no answer",
            extra={
                "run": self.turn.run_id,
                "task": self.turn.task_id,
                "agent": self.turn.agent,
                "server": self._settings.base_url,
                "model": self._settings.model,
                "why": failure.reason,
                "detail": self._settings.without_secrets(failure.detail)[:500],
                "remedy": failure.remedy,
            },
        )


def make(settings: OpenAISettings, resources: Resources) -> OpenAIBackend:
    missing = [name for name in settings.tools if name not in resources.tools]
    if missing:
        raise GatewayBug(f"tools were not made: {', '.join(missing)}")
    tools = [resources.tools[name] for name in settings.tools]
    return OpenAIBackend(
        settings,
        clock=resources.clock,
        tools=tools,
        allow_private=resources.allow_private,
        tap=resources.tap,
    )
