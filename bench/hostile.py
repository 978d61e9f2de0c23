"""What hostile callers and an endless agent cost the gateway: its peak memory, and who is served.

PYTHONPATH=src:. .venv-dev/bin/python -m bench.hostile            # in the environment of ./check
PYTHONPATH=src:. .venv-dev/bin/python -m bench.hostile bodies mcp  # some of the cases

Every case has a gateway of its own, with default settings. While it is attacked with one API key,
small sends with another one are counted and timed. The exit code is 1 when a gateway takes more
than its limit (600 MB, more for unread streams: docs/reference/limits.md) or a small send fails.
"""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

MB = 1 << 20
LIMIT_MB = 600
# Twenty turns of 12 MB are in memory beside twenty streams of 8 MB.
STREAM_LIMITS_MB = {"streams": 640, "json-file": 2_600, "memory": 1_000}
# 12 MB in a minute, half as much again as a reader may be behind.
CHATTY_PIECES = 1_200
# Connections that are closed after the gateway has stopped.
UNREAD: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
ALICE, MALLORY = "alice-has-a-long-key", "mallory-has-a-long-key"
CONFIG = """
[auth]
anonymous = "never"
[auth.keys]
alice = {{ key = "{alice}" }}
mallory = {{ key = "{mallory}" }}
[agents."bench/talker"]
default = true
backend = {{ kind = "python", target = "{agents}:talker" }}
{more}
"""
AGENTS = """
import asyncio
from trunkline import Turn, agent

@agent(name="talker")
async def talker(turn: Turn):
    words = turn.text.split()
    if words[0] == "endless":
        while True:
            yield "x" * 100_000
    elif words[0] == "chatty":
        for _ in range(int(words[1])):
            yield "x" * 10_000
            await asyncio.sleep(float(words[2]))
    elif words[0] == "large":
        for _ in range(int(words[1])):
            yield "x" * 1_000_000
    else:
        yield turn.text
"""


class Gateway:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0

    async def start(self, more: str = "") -> None:
        self._folder.mkdir()
        (self._folder / "agents.py").write_text(AGENTS)
        config = CONFIG.format(
            alice=ALICE, mallory=MALLORY, agents=self._folder / "agents.py", more=more
        )
        (self._folder / "trunkline.toml").write_text(config)
        with (self._folder / "log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "trunkline", "serve", "--port", "0"),
                *("--config", str(self._folder / "trunkline.toml")),
                # The option would win over a store of the case.
                *(() if "[store]" in more else ("--data", str(self._folder / "data"))),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        while not self.port:
            line = (await asyncio.wait_for(self._process.stdout.readline(), 60)).decode()
            if not line:
                raise SystemExit((self._folder / "log").read_text())
            found = re.search(r"Gateway.*:(\d+)", line)
            self.port = int(found[1]) if found else 0

    async def stop(self) -> float:
        """Seconds that it took."""
        assert self._process is not None
        before = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(self._process.wait(), 60)
        return time.monotonic() - before

    @property
    def peak_mb(self) -> float:
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024


def post(body: bytes, *, key: str, path: str = "/a2a/jsonrpc", length: int | None = None) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        "A2A-Version: 1.0\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def call(method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def message(text: str, method: str = "SendMessage") -> bytes:
    sent = {"messageId": os.urandom(8).hex(), "role": "ROLE_USER", "parts": [{"text": text}]}
    return call(method, {"message": sent})


async def ask(port: int, data: bytes) -> tuple[int, str, bytes]:
    """Status, Retry-After and body of one request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 1024)
    try:
        writer.write(data)
        return await answer(reader)
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, str, bytes]:
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)).decode("latin-1").lower()
    retry = re.search(r"retry-after: (\d+)", head)
    length = re.search(r"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return int(head.split()[1]), retry[1] if retry else "", body


class Beside:
    """Small sends of another caller, one after the other, for as long as it is entered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.taken_ms: list[float] = []
        self.failed: Counter[int] = Counter()
        # Not ended by a cancel: Python 3.11 may lose one that comes while `wait_for` is done.
        self.is_over = False

    async def run(self) -> None:
        while not self.is_over:
            before = time.monotonic()
            status, _, _ = await ask(self._port, post(message("hi"), key=ALICE))
            self.taken_ms.append((time.monotonic() - before) * 1000)
            if status != 200:
                self.failed[status] += 1
            await asyncio.sleep(0.02)

    def __str__(self) -> str:
        ordered = sorted(self.taken_ms)
        p99 = ordered[int(len(ordered) * 0.99)] if ordered else 0
        failed = f", failed: {dict(self.failed)}" if self.failed else ", none failed"
        return f"{len(ordered)} small sends, p99 {p99:.0f} ms{failed}"


async def bodies(gateway: Gateway) -> str:
    """200 unfinished bodies of 9.9 MB."""
    seen: Counter[str] = Counter()
    piece = b"x" * (99 * MB // 10 - 1)

    async def send() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(post(piece, key=MALLORY, length=len(piece) + 1))
        reading = asyncio.ensure_future(answer(reader))
        await asyncio.wait_for(writer.drain(), 120)
        await asyncio.wait([reading], timeout=1)
        seen[f"{reading.result()[0]}/{reading.result()[1]}s" if reading.done() else "held"] += 1
        reading.cancel()
        return reader, writer

    kept = []
    for _ in range(10):
        kept += await asyncio.gather(*(send() for _ in range(20)))
    for _, writer in kept:
        writer.transport.abort()
    return f"200 bodies: {dict(seen)}"


async def answers(gateway: Gateway) -> str:
    """100 unread answers of a task of 50 MB."""
    text = message("large 50")
    status, _, body = await ask(gateway.port, post(text, key=MALLORY))
    if status != 200:
        raise SystemExit(f"the large task: {status} {body[:200]!r}")
    task_id = json.loads(body)["result"]["task"]["id"]
    size = len(body)
    del body
    made_mb = gateway.peak_mb
    seen: Counter[str] = Counter()
    kept = []
    for _ in range(100):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
        writer.write(post(call("GetTask", {"id": task_id}), key=MALLORY))
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)).decode("latin-1")
        seen[head.split()[1] + ("/retry" if "retry-after" in head else "")] += 1
        # A reader that nobody keeps closes its connection.
        kept.append((reader, writer))
    for _, writer in kept:
        writer.transport.abort()
    return f"100 answers of {size // MB} MB: {dict(seen)}; {made_mb:.0f} MB to make the task"


async def streams(gateway: Gateway) -> str:
    """20 streams of an agent that talks for a minute, which nobody reads."""
    text = message(f"chatty {CHATTY_PIECES} 0.05", "SendStreamingMessage")
    kept = []
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
        writer.write(post(text, key=MALLORY))
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        kept.append((reader, writer))
    await asyncio.sleep(CHATTY_PIECES * 0.05 + 5)
    # They are still there when the gateway is told to stop.
    UNREAD.extend(kept)
    return f"20 unread streams of {CHATTY_PIECES * 10_000 // MB} MB each"


async def mcp(gateway: Gateway) -> str:
    """10,000 MCP sessions."""
    about = {"name": "bench", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    data = post(call("initialize", params), key=MALLORY, path="/mcp")
    seen: Counter[str] = Counter()

    async def some() -> None:
        for _ in range(625):
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(data)
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)).decode("latin-1")
            seen[head.split()[1] + ("/retry" if "retry-after" in head else "")] += 1
            writer.close()

    await asyncio.gather(*(some() for _ in range(16)))
    return f"10,000 sessions: {dict(seen)}"


async def upstream(gateway: Gateway) -> str:
    """An agent behind the gateway that never stops talking."""
    path = "/api/a2a/v1/agents/bench/behind"
    status, _, body = await ask(gateway.port, post(message("endless"), key=MALLORY, path=path))
    if status != 200:
        return f"endless upstream: {status} {body[-200:]!r}"
    state = json.loads(body)["result"]["task"]["status"]
    said = state["message"]["parts"][0]["text"] if "message" in state else ""
    return f"endless upstream: {state['state']}, {said!r}"


Case = Callable[[Gateway], Awaitable[str]]
CASES: dict[str, Case] = {
    "bodies": bodies,
    "answers": answers,
    "mcp": mcp,
    "upstream": upstream,
    "streams": streams,
    "json-file": streams,
    "memory": streams,
}


@asynccontextmanager
async def settings_of(name: str, folder: Path) -> AsyncIterator[str]:
    """What the gateway of a case needs beside the usual."""
    if name == "mcp":
        yield '[remote]\nmcp = true\n[targets.none]\nbase_url = "http://127.0.0.1:9"\n'
    elif name == "upstream":
        behind = Gateway(folder / "behind")
        await behind.start()
        try:
            yield (
                '[agents."bench/behind"]\n[agents."bench/behind".backend]\nkind = "a2a"\n'
                f'url = "http://127.0.0.1:{behind.port}"\n'
                f'credentials = {{ kind = "bearer", token = "{ALICE}" }}\n'
            )
        finally:
            await behind.stop()
    elif name in ("json-file", "memory"):
        place = f'path = "{folder / "tasks"}"\n' if name == "json-file" else ""
        yield f'[store]\nkind = "{name}"\n{place}'
    else:
        yield ""


async def sends_alone(port: int) -> Beside:
    """The small sends while nothing else happens."""
    alone = Beside(port)
    sending = asyncio.ensure_future(alone.run())
    await asyncio.sleep(5)
    alone.is_over = True
    await sending
    return alone


async def measure(name: str, folder: Path) -> bool:
    async with settings_of(name, folder) as more:
        gateway = Gateway(folder / name)
        await gateway.start(more)
        before = gateway.peak_mb
        alone = await sends_alone(gateway.port)
        beside = Beside(gateway.port)
        sending = asyncio.ensure_future(beside.run())
        told = await CASES[name](gateway)
        beside.is_over = True
        await sending
        peak = gateway.peak_mb
        stopped_s = await gateway.stop()
        for _, writer in UNREAD:
            writer.transport.abort()
        UNREAD.clear()
    print(f"{name:<10}{told}")
    print(f"{'':<10}alone {alone}")
    print(f"{'':<10}peak {peak:.0f} MB (idle {before:.0f}), stopped in {stopped_s:.1f} s; {beside}")
    return peak <= STREAM_LIMITS_MB.get(name, LIMIT_MB) and not beside.failed


async def main(names: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        held = [await measure(name, Path(folder)) for name in names or CASES]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
