"""LangGraph: a compiled graph as an agent."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, get_type_hints

from trunkline.backends.model_content import NotTaken, Takes, content_of
from trunkline.backends.python.adapters.conversations import (
    Recent,
    conversation_id,
    earlier,
    told,
    value_of,
)
from trunkline.backends.python.adapters.langgraph_events import GraphReading
from trunkline.backends.python.decorator import Agent
from trunkline.backends.python.turn import Turn
from trunkline.model.values import Role

_MODES = ["messages", "updates", "values", "custom"]
_ALL = Takes(images=True, files=True)
# Usual names of the input among several texts in the state of a graph.
_USUAL = ("input", "question", "query", "request", "prompt", "topic", "text")
_GONE = "The question is no longer open, because the conversation went on. Ask anew."
_LOST = "The question was lost when the agent was restarted. Ask anew."


def graph_agent(graph: Any, **about: Any) -> Agent:
    """The graph as an agent; `about` is what `@agent` takes.

    With a checkpointer, the thread is the conversation. Without one, the graph gets the earlier
    messages as input, and its pauses live in memory.
    """
    return Agent(GraphAgent(graph), **about)


class GraphAgent:
    def __init__(self, graph: Any) -> None:
        self._has_threads = bool(graph.checkpointer)
        self._memory: Any = None
        if graph.checkpointer is None:
            from langgraph.checkpoint.memory import InMemorySaver

            self._memory = InMemorySaver()
            graph = graph.copy(update={"checkpointer": self._memory})
        self._graph = graph
        self._fields = _fields_of(graph)
        # The open question of each task, unless the session keeps it.
        self._asked = Recent()

    async def __call__(self, turn: Turn) -> AsyncGenerator[object, None]:
        thread = conversation_id(turn) if self._has_threads else f"task-{turn.task_id}"
        config = {"configurable": {"thread_id": thread}}
        given = await self._input(turn, config)
        reading = GraphReading(turn, given if isinstance(given, Mapping) else {})
        try:
            async for namespace, mode, data in self._graph.astream(
                given, config, stream_mode=_MODES, subgraphs=True
            ):
                for output in reading.feed(mode, data, is_root=not namespace):
                    yield output
        finally:
            if self._memory is not None and not reading.questions:
                await self._memory.adelete_thread(thread)
        if reading.questions:
            await self._remember(turn, str(reading.questions[0].id))
        yield reading.end()

    async def _input(self, turn: Turn, config: Any) -> Any:
        """The input of the graph. Raises the end of the turn if the message gives no input."""
        fields = self._fields
        if turn.asked is not None:
            if asked := await self._recall(turn):
                return await self._resumption(turn, asked, config)
            if fields is None or "messages" not in fields:
                raise turn.fail(_LOST)
        if fields is None:
            return value_of(turn)
        try:
            if "messages" in fields:
                said = ("user", content_of(turn.parts, _ALL))
                return {"messages": [*await self._before(turn), said]}
            return _state_of(turn, fields)
        except NotTaken as refusal:
            raise turn.refuse(str(refusal)) from None

    async def _resumption(self, turn: Turn, asked: str, config: Any) -> Any:
        from langgraph.types import Command

        state = await self._graph.aget_state(config)
        if asked not in [str(question.id) for question in state.interrupts]:
            raise turn.fail(_GONE)
        return Command(resume={asked: value_of(turn)})

    async def _before(self, turn: Turn) -> list[tuple[str, str]]:
        """The messages that the graph has not seen yet."""
        if self._has_threads:
            return []
        roles = {Role.USER: "user", Role.AGENT: "assistant"}
        return [(roles[message.role], told(message.parts)) for message in await earlier(turn)]

    async def _remember(self, turn: Turn, question: str) -> None:
        if self._has_threads and turn.session_key:
            # The note survives a restart, like the thread.
            await turn.keep(_note(turn), question)
        elif (gone := self._asked.put(turn.task_id, question)) and self._memory is not None:
            await self._memory.adelete_thread(f"task-{gone}")

    async def _recall(self, turn: Turn) -> str:
        if self._has_threads and turn.session_key:
            asked = await turn.recall(_note(turn))
            if asked:
                await turn.keep(_note(turn), "")
            return asked or ""
        return str(self._asked.pop(turn.task_id, ""))


def _note(turn: Turn) -> str:
    return f"langgraph question {turn.task_id}"


def _fields_of(graph: Any) -> dict[str, Any] | None:
    """The keys of the graph's input and their types; None where it takes any value."""
    builder = getattr(graph, "builder", None)
    if builder is None:
        return None
    try:
        return get_type_hints(builder.input_schema)
    except (NameError, TypeError):
        # Some types exist for type checkers only; their names are enough.
        return dict(getattr(builder.input_schema, "__annotations__", {}))


def _state_of(turn: Turn, fields: Mapping[str, Any]) -> Any:
    """The input of a graph without messages."""
    if turn.data and isinstance(turn.data[0], dict):
        return turn.data[0]
    texts = [name for name, kind in fields.items() if kind in (str, "str")]
    usual = texts if len(texts) == 1 else [name for name in _USUAL if name in texts]
    if usual:
        return {usual[0]: turn.text}
    names = ", ".join(fields) or "nothing"
    raise NotTaken(f"The agent takes data, an object with: {names}.")
