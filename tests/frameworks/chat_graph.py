"""A chat that is a graph: it streams, uses its tool, asks, hangs and crashes when told to."""

import asyncio
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt


@tool
def search(query: str) -> str:
    """Finds things."""
    if query == "crash":
        raise ValueError("nothing there")
    return f"found {query}"


async def respond(state: MessagesState) -> dict[str, Any]:
    last = state["messages"][-1]
    if isinstance(last, HumanMessage):
        text = last.content if isinstance(last.content, str) else str(last.content)
    else:
        text = f"the tool {last.content}"
    if text == "crash":
        raise RuntimeError("told to")
    if text.startswith("use "):
        call = {"name": "search", "args": {"query": text[4:]}, "id": "call-1"}
        return {"messages": [AIMessage("let me see", tool_calls=[call])]}
    if text == "everything":
        text = " / ".join(str(message.content) for message in state["messages"])
    if text == "ask":
        text = f"So it is {interrupt('Which colour?')}."
    if text == "hang":
        await GenericFakeChatModel(messages=iter([AIMessage("begun")])).ainvoke(state["messages"])
        await asyncio.Event().wait()
    model = GenericFakeChatModel(messages=iter([AIMessage(text)]))
    return {"messages": [await model.ainvoke(state["messages"])]}


def chat(**options: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("model", respond)
    builder.add_node("tools", ToolNode([search], handle_tool_errors=True))
    builder.add_edge(START, "model")
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__"
    )
    builder.add_edge("tools", "model")
    return builder.compile(**options)


graph = chat()
