"""Codex: `codex exec --json`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trunkline.backends.command.format import Format, Reader, Start, missing
from trunkline.backends.json_values import json_object, numbers, table, tables, text
from trunkline.backends.programs import failures
from trunkline.backends.programs.children import MCP_NAME, TOOLS_TOKEN
from trunkline.backends.programs.prompt import CannotTell, Prompt
from trunkline.model.outputs import Failed, Final, Note, Output, StageStarted, Text, ToolCalled
from trunkline.model.values import Part

USAGE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cached_input_tokens": "cacheReadTokens",
    "reasoning_output_tokens": "reasoningTokens",
}
# Type of an item → the name of the tool, its input and its result.
_Pick = Callable[[dict[str, Any]], Any]
TOOLS: dict[str, tuple[str, _Pick, _Pick]] = {
    "command_execution": (
        "shell",
        lambda item: {"command": item.get("command")},
        lambda item: {
            "output": item.get("aggregated_output"),
            "exitCode": item.get("exit_code"),
        },
    ),
    "file_change": (
        "edit",
        lambda item: {"changes": item.get("changes")},
        lambda item: {"changes": item.get("changes")},
    ),
    "mcp_tool_call": (
        "mcp",
        lambda item: item.get("arguments"),
        lambda item: item.get("result") or item.get("error"),
    ),
    "web_search": (
        "web_search",
        lambda item: {"query": item.get("query")},
        lambda item: {"query": item.get("query")},
    ),
}


class CodexFormat(Format):
    def arguments(self, argv: tuple[str, ...], start: Start) -> tuple[str, ...]:
        resume = ("resume", start.known) if start.known else ()
        tools: tuple[str, ...] = ()
        if start.mcp_url:
            key = f"mcp_servers.{MCP_NAME}"
            tools = ("-c", f'{key}.url="{start.mcp_url}"')
            tools += ("-c", f'{key}.bearer_token_env_var="{TOOLS_TOKEN}"')
            # `codex exec` has no user to ask, and the operator has chosen the tools.
            tools += ("-c", f'{key}.default_tools_approval_mode="approve"')
        # The prompt comes on standard input, where it cannot be taken for an option and does
        # not show in `ps`.
        return (*argv[1:], *missing(argv, [("--json",)]), *tools, *resume, "-")

    def message(self, prompt: Prompt) -> bytes:
        if not prompt.text.strip():
            raise CannotTell("The message is empty.")
        return prompt.text.encode()

    def reader(self) -> Reader:
        return CodexReader()

    def try_again(self, start: Start, reader: Reader, errors: str) -> str | None:
        if start.known and not reader.known and "no rollout found" in errors:
            # The thread was deleted, or is in another home folder.
            return ""
        return None


class CodexReader(Reader):
    def __init__(self) -> None:
        self._has_said = False
        self._begun: set[str] = set()

    def feed(self, data: bytes) -> Iterable[Output]:
        frame = json_object(data)
        match table(frame).get("type"):
            case "thread.started":
                self.known = text(table(frame).get("thread_id"))
                return ()
            case "item.started" | "item.updated" | "item.completed" as kind:
                return self._item(str(kind), table(table(frame).get("item")))
            case "turn.completed":
                return self._completed(table(frame))
            case "turn.failed":
                return self._failed(table(table(frame).get("error")))
            case "error":
                self.trouble = text(table(frame).get("message"))
                return ()
            case _:
                return ()

    def _item(self, kind: str, item: dict[str, Any]) -> Iterator[Output]:
        match item.get("type"):
            case "agent_message" if kind == "item.completed":
                yield from self._said(text(item.get("text")))
            case "todo_list" if kind != "item.completed":
                if plan := _plan(item):
                    yield Note((Part(text=plan),))
            case "error":
                # A warning: an error that ends the turn comes as `turn.failed`.
                self.trouble = text(item.get("message"))
            case str(tool) if tool in TOOLS:
                yield from self._tool(kind, item, TOOLS[tool])

    def _said(self, piece: str) -> Iterator[Output]:
        if not piece:
            return
        if self._has_said:
            yield StageStarted()
        self._has_said = True
        yield Text(piece)

    def _tool(
        self, kind: str, item: dict[str, Any], as_tool: tuple[str, _Pick, _Pick]
    ) -> Iterator[Output]:
        name, given, gave = as_tool
        call_id = text(item.get("id"))
        if name == "mcp":
            name = f"{text(item.get('server')) or 'mcp'}.{text(item.get('tool')) or 'call'}"
        if not call_id:
            return
        if call_id not in self._begun:
            self._begun.add(call_id)
            yield ToolCalled(call_id=call_id, name=name, phase="start", data=given(item))
        if kind == "item.completed":
            is_error = item.get("status") in ("failed", "declined")
            yield ToolCalled(
                call_id=call_id, name=name, phase="result", data=gave(item), is_error=is_error
            )

    def _completed(self, frame: dict[str, Any]) -> Iterator[Output]:
        self.is_done = True
        usage = numbers(frame.get("usage"), USAGE)
        yield Final(metadata={"usage": usage} if usage else None)

    def _failed(self, error: dict[str, Any]) -> Iterator[Output]:
        self.is_done = True
        self.trouble = text(error.get("message")) or self.trouble
        yield Failed(failures.MODEL_FAILED)


def _plan(item: dict[str, Any]) -> str:
    steps = tables(item.get("items"))
    return "\n".join(f"[{'x' if s.get('completed') else ' '}] {text(s.get('text'))}" for s in steps)
