"""Which files ./check looks at: those that git tracks, with `git add -N` enough for a new one."""

import subprocess
from pathlib import Path

# A hint names this many files; the rest is a count.
_NAMED_IN_HINT = 5


def tracked_files(root: Path, *patterns: str) -> list[str] | None:
    """Tracked files that exist, relative to `root`; None where git cannot tell."""
    listed = _listed(root, *patterns)
    return None if listed is None else [name for name in listed if (root / name).is_file()]


def untracked_hint(root: Path) -> str:
    """One line about Python files that git neither tracks nor ignores; empty without any."""
    names = _listed(root, "--others", "--exclude-standard", "--", "*.py", "*.pyi")
    if not names:
        return ""
    shown = ", ".join(names[:_NAMED_IN_HINT])
    more = len(names) - _NAMED_IN_HINT
    shown += f" and {more} more" if more > 0 else ""
    return f"not checked, because git does not track it: {shown} (git add -N FILE includes a file)"


def _listed(root: Path, *arguments: str) -> list[str] | None:
    # In a container the checkout may belong to another user, which git would refuse to read.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *arguments]
    try:
        listing = subprocess.run(command, cwd=root, capture_output=True)
    except OSError:
        return None
    if listing.returncode != 0:
        return None
    return sorted(set(filter(None, listing.stdout.decode(errors="replace").split("\0"))))
