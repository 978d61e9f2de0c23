"""A pydantic-ai agent with a tool."""

import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(
    base_url=os.environ.get("MODEL_URL", "http://127.0.0.1:18900/v1"),
    api_key=os.environ.get("MODEL_KEY", "none"),
)
clerk = Agent(
    OpenAIChatModel(os.environ.get("MODEL", "fake-1"), provider=provider),
    instructions="You know what is in stock. Be brief.",
)


@clerk.tool_plain
def stock(item: str) -> int:
    """How many there are of an item."""
    return len(item)
