"""`send` and `stream` against an agent that never stops: they end, and stay small."""

import asyncio
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.acceptance.command import Shell
from tests.acceptance.gateway import DEADLINE_S
from tests.acceptance.raw_peer import CHUNKED, STREAM, TASK, Asked, chunk, event, piece, raw_peer

from trunkline.cli.exit_codes import Exit

# What docs/calling.md says.
MOST_BYTES = 200 * 1000 * 1000
WORDS = "lorem ipsum dolor sit amet "
# The command, then the most memory that its process ever had.
MEASURED = """
import atexit, pathlib, runpy, sys
def tell(path=pathlib.Path(sys.argv.pop())):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM:")]
    path.write_text(line.split()[1])
atexit.register(tell)
runpy.run_module("trunkline", run_name="__main__", alter_sys=True)
"""

Results: TypeAlias = Iterator[dict[str, Any]]


def texts() -> Results:
    return (piece(WORDS * 2000, append=number > 0) for number in itertools.count())


def mixed() -> Results:
    """One character makes every other one four bytes long in memory."""
    return (piece(WORDS * 2000 + "\U0001f600", append=number > 0) for number in itertools.count())


def artifacts() -> Results:
    for number in itertools.count():
        found = piece(WORDS, append=False)
        found["artifactUpdate"]["artifact"]["artifactId"] = f"a{number}"
        yield found


def data() -> Results:
    """JSON that takes twenty times its length in memory."""
    for number in itertools.count():
        found = piece("", append=False)
        found["artifactUpdate"]["artifact"] = {
            "artifactId": f"a{number}",
            "parts": [{"data": [[]] * 20_000}],
        }
        yield found


CASES = [
    *itertools.product([texts, mixed, artifacts, data], [["send"], ["stream"]]),
    *itertools.product([mixed, data], [["send", "-o", "json"], ["send", "--save", "out"]]),
]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory")
@pytest.mark.parametrize(
    ("results", "command"),
    CASES,
    ids=[f"{results.__name__}-{' '.join(command)}" for results, command in CASES],
)
async def test_an_answer_without_end_is_cut_off(
    results: Callable[[], Results], command: list[str], tmp_path: Path
) -> None:
    async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(event(asked, {"task": TASK})))
        for result in results():
            writer.write(chunk(event(asked, result)))
            await writer.drain()

    async with raw_peer(endless) as peer:
        peer.card["capabilities"] = {"streaming": True}
        code, err, most_bytes = await measured(tmp_path, *command, peer.url, "go on")
    assert code == Exit.TOO_LARGE, err
    assert "the answer is larger than 33554432 bytes. The task continues." in err
    assert f"trunkline cancel {peer.url} t" in err
    assert most_bytes < MOST_BYTES


async def test_an_answer_below_the_limit_is_shown_whole(tmp_path: Path) -> None:
    count = 500

    async def long(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM + event(asked, {"task": TASK}))
        for result in itertools.islice(texts(), count):
            writer.write(event(asked, result))
            await writer.drain()
        done = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
        writer.write(event(asked, {"statusUpdate": done}))
        await writer.drain()
        writer.close()

    async with raw_peer(long) as peer:
        peer.card["capabilities"] = {"streaming": True}
        out = tmp_path / "answer.txt"
        code, err, most_bytes = await measured(tmp_path, "send", peer.url, "go on", out=out)
    assert (code, err) == (Exit.DONE, "")
    assert out.read_text() == WORDS * 2000 * count + "\n"
    assert most_bytes < MOST_BYTES


async def measured(folder: Path, *arguments: str, out: Path | None = None) -> tuple[int, str, int]:
    """Exit code, stderr, and the most memory that the process had."""
    told = folder / "memory"
    shell = Shell(folder)
    with (out or Path(os.devnull)).open("wb") as stdout:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            MEASURED,
            *arguments,
            str(told),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
            env=shell.environment,
            cwd=folder,
        )
        try:
            async with asyncio.timeout(4 * DEADLINE_S):
                _, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode is not None
    return process.returncode, err.decode(), int(told.read_text()) * 1024
