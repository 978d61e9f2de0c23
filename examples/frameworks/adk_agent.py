"""An agent of Google ADK. This one needs no model; an LlmAgent is published the same way."""

from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent, InvocationContext
from google.adk.events import Event
from google.genai import types


class Counter(BaseAgent):
    """Counts what was said in the conversation."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        said = sum(event.author == "user" for event in ctx.session.events)
        text = f"You have said {said} thing{'' if said == 1 else 's'} so far."
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=text)]),
        )


root_agent = Counter(name="counter", description="Counts what you say.")
