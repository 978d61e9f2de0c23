"""Settings of a model to the backend that asks it."""

from collections.abc import Mapping

from trunkline.backends.openai import History, Limits, OpenAIBackend, Options, Takes
from trunkline.model.errors import GatewayBug
from trunkline.ports.clock import Clock
from trunkline.ports.tools import TurnTool
from trunkline.settings import backends as kinds


def make_openai(
    settings: kinds.OpenAIBackend, clock: Clock, tools: Mapping[str, TurnTool]
) -> OpenAIBackend:
    """`tools` are all that there are; the settings say which of them the model gets."""
    return OpenAIBackend(openai_options(settings, tools), clock=clock)


def openai_options(settings: kinds.OpenAIBackend, tools: Mapping[str, TurnTool]) -> Options:
    missing = [name for name in settings.tools if name not in tools]
    if missing:
        raise GatewayBug(f"tools were not made: {', '.join(missing)}")
    headers = {name: value.reveal() for name, value in settings.headers.items()}
    if settings.api_key is not None:
        headers["Authorization"] = f"Bearer {settings.api_key.reveal()}"
    return Options(
        base_url=settings.base_url,
        model=settings.model,
        headers=headers,
        system_prompt=settings.system_prompt,
        stream=settings.stream,
        temperature=settings.temperature,
        extra_body=settings.extra_body,
        history=History(turns=settings.max_history_turns, tokens=settings.max_history_tokens),
        takes=Takes(images=settings.images, files=settings.files, links=settings.links),
        limits=Limits(
            connect_s=settings.connect_s,
            idle_s=settings.idle_s,
            total_s=settings.total_s,
            max_answer_bytes=settings.max_answer_bytes,
            attempts=settings.attempts,
        ),
        tools=tuple(tools[name] for name in settings.tools),
        max_tool_rounds=settings.max_tool_rounds,
    )
