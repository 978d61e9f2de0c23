"""How long small sends wait beside one large answer that is produced, read and replayed.

PYTHONPATH=src:. python -m bench.large                  # in the environment of ./check
PYTHONPATH=src:. python -m bench.large --mb 10,50 --rounds 3
PYTHONPATH=src:. python -m bench.large --store memory
PYTHONPATH=src:. python -m bench.large --source ../other/src --mb 50

The server has one core, the load the other. One connection makes small sends, one after the
other, while another process produces the answer (a blocking send), then reads it ten times
(GetTask) and replays it twenty times (SubscribeToTask from the first event), all at once.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import cores
from bench.process import Process, free_port

MB = 1_000_000
READS = 10
UPLOADS = 5
UPLOAD_BYTES = 9_500_000
REPLAYS = 20
PATH = "/a2a/jsonrpc"
# Small sends are due so often, and counted for at least so long.
PERIOD_S = 0.005
MIN_WINDOW_S = 1.0
GIVE_UP_S = 180.0

AGENT = """
from trunkline import Turn, agent

DELTA = 20_000
LINE = "The quick brown fox jumps over the lazy dog, said the agent to its caller.\\n"


@agent(name="large", pure=True)
async def large(turn: Turn):
    kind, _, number = turn.text.partition(" ")
    if kind not in ("whole", "deltas"):
        yield turn.text if len(turn.text) < 100 else "ok"
        return
    text = (LINE * (int(number) // len(LINE) + 1))[: int(number)]
    step = len(text) if kind == "whole" else DELTA
    for start in range(0, len(text), step):
        yield text[start : start + step]
"""


def call(method: str, params: object, headers: str = "") -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"a2a-version: 1.0\r\n{headers}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def send(text: str, message_id: str) -> bytes:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}
    return call("SendMessage", {"message": message})


def exchange(port: int, request: bytes) -> tuple[int, bytes, bytes]:
    """One request on a connection of its own: how much came, its beginning and its end."""
    with socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_S) as link:
        link.sendall(request.replace(b"\r\nhost:", b"\r\nconnection: close\r\nhost:", 1))
        buffer = memoryview(bytearray(1 << 20))
        size, first, last = 0, b"", b""
        while n := link.recv_into(buffer):
            size += n
            if len(first) < 4096:
                first += bytes(buffer[: min(n, 4096)])
            last = (last + bytes(buffer[max(0, n - 4096) : n]))[-4096:]
    return size, first, last


def produce(port: int, size: int, shape: str) -> str:
    got, first, last = exchange(port, send(f"{shape} {size}", "large"))
    if got < size or b"TASK_STATE_COMPLETED" not in first + last:
        raise SystemExit(f"bench: wrong answer of {got} bytes: {first[:300]!r}")
    found = re.search(rb'"task":\{"id":"([^"]+)"', first)
    assert found is not None
    return found[1].decode()


def read(port: int, task: str, size: int) -> None:
    got, first, _ = exchange(port, call("GetTask", {"id": task}))
    if got < size:
        raise SystemExit(f"bench: GetTask gave {got} bytes: {first[:300]!r}")


def replay(port: int, task: str, size: int) -> None:
    request = call("SubscribeToTask", {"id": task}, "last-event-id: 1\r\n")
    got, first, last = exchange(port, request)
    if got < size or b"TASK_STATE_COMPLETED" not in first + last:
        raise SystemExit(f"bench: a replay gave {got} bytes: {first[:300]!r}")


def upload(port: int) -> None:
    text = "A line of a long question.\n" * (UPLOAD_BYTES // 28)
    got, first, _ = exchange(port, send(text, "upload"))
    if got < len(text) or not first.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"bench: an upload was answered with {got} bytes: {first[:300]!r}")


def at_once(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def load(phase: str, port: int, size: int, task: str) -> None:
    """What the other process does."""
    if phase in ("whole", "deltas"):
        print(produce(port, size, phase))
    elif phase == "upload":
        at_once(UPLOADS, lambda: upload(port))
    elif phase == "read":
        at_once(READS, lambda: read(port, task, size))
    else:
        at_once(REPLAYS, lambda: replay(port, task, size))


def small_sends(port: int, is_over: Callable[[], bool]) -> list[float]:
    """Latencies in ms of sends that are due every PERIOD_S, until it is over."""
    latencies: list[float] = []
    with socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP_S) as link:
        due = began = time.perf_counter()
        while not is_over() or due - began < MIN_WINDOW_S:
            time.sleep(max(0.0, due - time.perf_counter()))
            start = time.perf_counter()
            link.sendall(send(f"small {len(latencies)}", f"s{len(latencies)}"))
            answer = b""
            while b"TASK_STATE_COMPLETED" not in answer or not answer.endswith(b"}}}"):
                piece = link.recv(65536)
                if not piece:
                    raise SystemExit("bench: the server closed the connection")
                answer += piece
            latencies.append((time.perf_counter() - start) * 1000)
            due = max(due + PERIOD_S, time.perf_counter())
    return latencies


def beside(phase: str, port: int, size: int, task: str) -> tuple[list[float], str, float]:
    command = [sys.executable, "-m", "bench.large", "--load", phase, str(port), str(size), task]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        ended: list[float] = []

        def is_over() -> bool:
            if child.poll() is not None and not ended:
                ended.append(time.perf_counter() - began)
            return bool(ended)

        latencies = small_sends(port, is_over)
        assert child.stdout is not None
        said = child.stdout.read().strip()
    if child.returncode:
        raise SystemExit(child.returncode)
    return latencies, said, ended[0]


def show(name: str, latencies: list[float], took_s: float, rss: int) -> None:
    ordered = sorted(latencies)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(
        f"{name:22} {len(ordered):6} sends   p50 {ordered[len(ordered) // 2]:7.1f}   "
        f"p99 {p99:7.1f}   max {ordered[-1]:7.1f} ms   took {took_s:5.1f} s   "
        f"RSS {rss / MB:5.0f} MB",
        flush=True,
    )


def run(
    size: int, store: str, phases: list[str], source: Path, own_core: int, server_core: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-large-") as folder:
        (Path(folder) / "large.py").write_text(AGENT)
        port = free_port()
        db = "memory://" if store == "memory" else f"sqlite:///{folder}/store.db"
        command = [sys.executable, "-m", "trunkline", "serve", f"{folder}/large.py"]
        command += ["--port", str(port), "--db", db]
        server = Process(
            command,
            port=port,
            env={"PYTHONPATH": str(source)},
            log=Path(folder) / "log",
            core=server_core,
            cwd=Path(folder),
        )
        try:
            server.wait_until_up("/readyz")
            os.sched_setaffinity(0, {own_core})
            small_sends(port, lambda: True)
            alone = small_sends(port, lambda: True)
            show("alone", alone, MIN_WINDOW_S, server.rss_bytes())
            task = ""
            for phase in phases:
                latencies, said, took_s = beside(phase, port, size, task)
                task = said or task
                show(f"{phase} {size // MB} MB", latencies, took_s, server.rss_bytes())
        finally:
            server.stop()


def main() -> None:
    """Sizes, phases and stores are options; figures go to standard output."""
    parser = argparse.ArgumentParser(prog="bench.large")
    parser.add_argument("--mb", default="10,50", help="sizes of the answer, in MB")
    parser.add_argument(
        "--phases",
        default="whole,read,replay,upload",
        help="whole or deltas (how the agent says it), read, replay, upload",
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--store", choices=("sqlite", "memory"), default="sqlite")
    parser.add_argument("--source", type=Path, default=Path("src"), help="the sources to serve")
    parser.add_argument("--load", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        phase, port, size, task = options.load
        load(phase, int(port), int(size), task)
        return
    server_core, own_core = cores.split()
    for _ in range(options.rounds):
        for mb in options.mb.split(","):
            run(
                int(mb) * MB,
                options.store,
                options.phases.split(","),
                options.source.absolute(),
                own_core,
                server_core,
            )


if __name__ == "__main__":
    main()
