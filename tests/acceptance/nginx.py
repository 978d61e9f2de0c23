"""A real nginx in front of a gateway, on the same machine."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.gateway import DEADLINE_S

# Debian keeps it where ordinary users do not look for programs.
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "nginx.conf"
# The least that makes a proxy: it adds no header that tells of itself.
BARE = """
server {
    listen 443 ssl;
    location / { proxy_pass http://127.0.0.1:8642; }
}
"""
_MAIN = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@contextmanager
def nginx(folder: Path, server: str, *, port: int, upstream_port: int) -> Iterator[None]:
    """Serves plain HTTP at `port`, by a server block that is written for TLS and port 8642."""
    assert NGINX is not None
    lines = [line for line in server.splitlines() if "ssl_certificate" not in line]
    block = "\n".join(lines).replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    block = block.replace("127.0.0.1:8642", f"127.0.0.1:{upstream_port}")
    # Workers of a root's nginx run as another user, who cannot write to our folder.
    user = "user root;" if os.geteuid() == 0 else ""
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(_MAIN.format(folder=folder, server=block, user=user))
    command = [NGINX, "-c", str(config), "-p", str(folder), "-e", str(folder / "error.log")]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        _wait_for(process, port, folder)
        yield
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def _wait_for(process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            is_late = time.monotonic() > deadline
            if process.poll() is not None or is_late:
                log = (folder / "error.log").read_text()
                raise AssertionError(f"nginx does not start:\n{log}") from None
            time.sleep(0.02)
