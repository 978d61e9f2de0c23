"""`Options`: the model, its server and the limits of requests."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, convert

from trunkline.backends.model_content import Takes
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.config.secret import revealed
from trunkline.model.errors import GatewayBug
from trunkline.ports.tools import TurnTool

MASK: Final = "***"
# Texts that are shorter would be found everywhere.
_SECRET_CHARS: Final = 6


class Limits(Struct, frozen=True, kw_only=True):
    """Of one request to the model's server."""

    connect_s: float = 10.0
    # Silence, also before the first word.
    idle_s: float = 180.0
    total_s: float = 3600.0
    max_answer_bytes: int = 4 * 1024 * 1024
    attempts: int = 3


class History(Struct, frozen=True, kw_only=True):
    """How much of the conversation so far the model is told."""

    turns: int = 20
    # Estimated, at four characters each.
    tokens: int = 8000


class Options(Struct, frozen=True, kw_only=True):
    """`headers` hold the key, so they are shown by name only."""

    base_url: str
    model: str
    headers: Mapping[str, str] = {}
    system_prompt: str = ""
    stream: bool = True
    temperature: float | None = None
    extra_body: Mapping[str, Any] = {}
    history: History = History()
    takes: Takes = Takes()
    limits: Limits = Limits()
    tools: tuple[TurnTool, ...] = ()
    max_tool_rounds: int = 8

    def __repr__(self) -> str:
        return f"Options({self.base_url}, {self.model}, headers=[{', '.join(self.headers)}])"

    def url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/{path}"

    def masked(self, text: str) -> str:
        """The text without what a server may have quoted of our headers."""
        for value in self.headers.values():
            for secret in {value, value.removeprefix("Bearer ")}:
                if len(secret) >= _SECRET_CHARS:
                    text = text.replace(secret, MASK)
        return text


def openai_options(settings: OpenAIBackend, tools: Mapping[str, TurnTool]) -> Options:
    """`tools` are all of the gateway; the settings name those that the model gets."""
    missing = [name for name in settings.tools if name not in tools]
    if missing:
        raise GatewayBug(f"tools were not made: {', '.join(missing)}")
    headers = revealed(settings.headers)
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
        takes=convert(settings, Takes, from_attributes=True),
        limits=convert(settings, Limits, from_attributes=True),
        tools=tuple(tools[name] for name in settings.tools),
        max_tool_rounds=settings.max_tool_rounds,
    )
