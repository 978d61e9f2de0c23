"""How every Python peer is served: one uvicorn process, uvloop, httptools, no access log."""

import argparse
from pathlib import Path
from typing import Any

import uvicorn


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, help="folder for a database, if any")
    parser.add_argument("--db", metavar="URL", help="the PostgreSQL database of `--store postgres`")
    parser.add_argument("--store", choices=("memory", "sqlite", "postgres"), default="memory")
    return parser.parse_args()


def serve(app: Any, port: int) -> None:
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        # The 1,000 subscribers of the fan-out case connect in one burst.
        backlog=2048,
        timeout_graceful_shutdown=2,
    )
