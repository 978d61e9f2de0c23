"""A LangGraph graph that asks before it acts."""

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def order(state: MessagesState) -> dict[str, list[AIMessage]]:
    wish = state["messages"][-1].content
    answer = interrupt(f"Shall I really order {wish}?")
    done = f"Ordered: {wish}." if answer.lower().startswith("y") else "Then not."
    return {"messages": [AIMessage(done)]}


builder = StateGraph(MessagesState)
builder.add_node("order", order)
builder.add_edge(START, "order")
graph = builder.compile()
