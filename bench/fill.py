"""Writes a database with many finished tasks, for the cases about size.

`python -m bench.fill --data DIR --tasks N` runs in the servers' interpreter, with the gateway on
its path, and leaves in DIR what `trunkline serve --data DIR` opens: N finished tasks of the
principal that an unauthenticated loopback caller is, each as if it had been sent `hello N`.
It goes through the gateway's own Store port, in large batches, never through SQL of its own, so
that it cannot drift from the schema.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from bench.fleet import RESULTS
from bench.servers import ROOT

FILL_LIMIT_S = 900


class NotFilled(Exception):
    """There is no database with stored tasks to measure on."""


def filled(python: str, tasks: int) -> Path:
    """The folder with `tasks` stored tasks; made once and kept, remove it to have it made anew."""
    data = RESULTS / f"stored-{tasks}"
    done = data / ".filled"
    if done.exists():
        return data
    data.mkdir(parents=True, exist_ok=True)
    print(f"writing {tasks:,} tasks, once", file=sys.stderr, flush=True)
    command = [python, "-m", "bench.fill", "--data", str(data), "--tasks", str(tasks)]
    try:
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        ended = subprocess.run(command, cwd=ROOT, env=env, timeout=FILL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise NotFilled(f"not filled in {FILL_LIMIT_S} s") from late
    if ended.returncode:
        raise NotFilled("bench/fill.py could not write the tasks")
    done.touch()
    return data


def fill(data: Path, tasks: int) -> None:
    """Write `tasks` finished tasks below `data`."""
    raise NotFilled(f"{tasks:,} tasks into {data}: needs the gateway's Store port")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", type=int, required=True)
    options = parser.parse_args()
    try:
        fill(options.data, options.tasks)
    except NotFilled as reason:
        sys.exit(f"bench.fill: {reason}")


if __name__ == "__main__":
    main()
