"""An earlier commit of this repository, to be measured beside the present one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.fleet import RESULTS
from bench.servers import ROOT


@contextmanager
def checked_out(revision: str) -> Iterator[tuple[str, Path]]:
    """The short name of the commit, and a folder with its sources that goes away afterwards."""
    commit = _git("rev-parse", "--short", f"{revision}^{{commit}}").strip()
    folder = RESULTS / f"commit-{commit}"
    _git("worktree", "remove", "--force", str(folder), check=False)
    _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield commit, folder / "src"
    finally:
        _git("worktree", "remove", "--force", str(folder), check=False)


def _git(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"bench: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
