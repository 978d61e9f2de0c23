"""What WebSockets cost: resident memory of an idle one, and CPU of the gateway per echoed message.

PYTHONPATH=src:. .venv-dev/bin/python -m bench.websockets    # in the environment of ./check

The gateway that users start mounts none, so this one has the mounts of the acceptance tests. The
exit code is 1 when 1,000 idle sockets take more than 15 MB.
"""

import os
import socket
import sys
import tempfile
from pathlib import Path

from bench import cores
from bench.process import Process, free_port

SOCKETS = 1000
MESSAGES = 20_000
LIMIT_MB = 15.0
CONFIG = """
[store]
kind = "memory"
[agents."bench/echo"]
name = "Echo"
default = true
backend = { kind = "echo" }
"""
HANDSHAKE = (
    b"GET /ws/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
# A text of 64 bytes with the mask 0, and the same without a mask.
SENT = b"\x81\xc0\x00\x00\x00\x00" + b"x" * 64
ECHOED = b"\x81\x40" + b"x" * 64


def opened(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(HANDSHAKE)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += made.recv(4096)
    if not answer.startswith(b"HTTP/1.1 101 "):
        raise SystemExit(f"no WebSocket: {answer!r}")
    return made


def echo(made: socket.socket) -> None:
    made.sendall(SENT)
    answer = b""
    while len(answer) < len(ECHOED):
        answer += made.recv(4096)
    if answer != ECHOED:
        raise SystemExit(f"not an echo: {answer!r}")


def measure(process: Process) -> float:
    """The megabytes of the idle sockets."""
    process.wait_until_up("/healthz")
    first = opened(process.port)
    for _ in range(MESSAGES // 10):
        echo(first)
    before_s = process.cpu_s()
    for _ in range(MESSAGES):
        echo(first)
    cpu_us = (process.cpu_s() - before_s) / MESSAGES * 1e6
    before = process.rss_bytes()
    idle = [opened(process.port) for _ in range(SOCKETS)]
    for one in idle:
        echo(one)
    taken = process.rss_bytes() - before
    for one in (first, *idle):
        one.close()
    print(f"idle WebSocket: {taken / 1e3 / SOCKETS:.2f} KB each, {SOCKETS} of them")
    print(f"echoed message of 64 bytes: {cpu_us:.1f} µs of CPU")
    return taken / 1e6


def main() -> int:
    server_core, client_core = cores.split()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "trunkline.toml"
        config.write_text(CONFIG)
        port = free_port()
        command = [sys.executable, "-m", "tests.acceptance.websocket_mounts", "serve"]
        process = Process(
            [*command, "--config", str(config), "--port", str(port)],
            port=port,
            env={"PYTHONPATH": os.pathsep.join(sys.path)},
            log=Path(folder) / "log",
            core=server_core,
            cwd=Path(folder),
        )
        os.sched_setaffinity(0, {client_core})
        try:
            return 0 if measure(process) <= LIMIT_MB else 1
        finally:
            process.stop()


if __name__ == "__main__":
    sys.exit(main())
