"""An agent of Google ADK whose model is a fake that does what it is told."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


def response(*parts: Any, **fields: Any) -> Any:
    return LlmResponse(content=types.Content(role="model", parts=list(parts)), **fields)


class FakeLlm(BaseLlm):
    """Says back what it was told, by words; uses its tool, hangs and fails when it should."""

    async def generate_content_async(
        self, request: Any, stream: bool = False
    ) -> AsyncGenerator[Any, None]:
        part = request.contents[-1].parts[0]
        text = part.text or ""
        if part.inline_data is not None:
            text = f"{part.inline_data.mime_type}"
        if part.function_response is not None:
            text = f"the tool gave {part.function_response.response}"
        if text == "crash":
            raise RuntimeError("told to")
        if text == "fail":
            yield LlmResponse(error_code="SAFETY", error_message="a secret")
            return
        if text.startswith("use "):
            call = types.FunctionCall(name="search", args={"query": text[4:]}, id="call-1")
            yield response(types.Part(text="let me see"), types.Part(function_call=call))
            return
        if text == "everything":
            text = " / ".join(p.text for c in request.contents for p in c.parts if not p.thought)
        for word in text.split():
            yield response(types.Part(text=f"{word} "), partial=True)
        if text == "hang":
            await asyncio.Event().wait()
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=3, candidates_token_count=4, total_token_count=7
        )
        thought = types.Part(text="hm", thought=True)
        yield response(thought, types.Part(text=text), usage_metadata=usage)


def search(query: str) -> dict[str, str]:
    """Finds things."""
    return {"error": "nothing there"} if query == "nothing" else {"found": query}


def theirs() -> Any:
    return LlmAgent(
        name="helper", model=FakeLlm(model="fake"), description="Helps.", tools=[search]
    )


root_agent = theirs()
