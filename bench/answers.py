"""Is an answer right: JSON-RPC results, finished tasks, whole streams."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from bench.dialects import Dialect
from bench.script import delta

_decode = msgspec.json.Decoder().decode
_DELTA = re.compile(rb"d\d{4};")


def parse(status: int, body: bytes) -> dict[str, Any] | str:
    """The JSON-RPC answer, or why there is none."""
    if status != 200:
        return f"HTTP {status}: {body[:120]!r}"
    try:
        answer = _decode(body)
    except msgspec.DecodeError:
        return f"not JSON: {body[:120]!r}"
    if not isinstance(answer, dict) or "result" not in answer:
        return f"no result: {body[:200]!r}"
    return answer


def finished(task: dict[str, Any], dialect: Dialect, text: str) -> str | None:
    if task["status"]["state"] != dialect.completed:
        return f"state {task['status']['state']}"
    if not "".join(part["text"] for part in task["artifacts"][0]["parts"]).startswith(text):
        return "wrong text in the artifact"
    return None


def sse_events(body: bytes) -> list[bytes]:
    blocks = body.replace(b"\r\n", b"\n").split(b"\n\n")
    return [block for block in blocks if b"data:" in block]


def streamed(events: Sequence[bytes], dialect: Dialect, deltas: int) -> str | None:
    """Why these events are not a whole run of `deltas` deltas.

    A server may join deltas into one event; it may not lose, repeat or reorder them.
    """
    if not events or dialect.completed.encode() not in events[-1]:
        return "the stream did not end with completed"
    artifacts = b"".join(event for event in events if b'"artifactUpdate"' in event)
    seen = _DELTA.findall(artifacts)
    if seen != [delta(index).encode() for index in range(deltas)]:
        return f"{len(seen)} of {deltas} deltas, or out of order"
    return None
