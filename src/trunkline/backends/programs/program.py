"""`Program`: a command with its working directory and its environment."""

import os
import shutil
from collections.abc import Mapping, Sequence

from trunkline.backends.programs.settings import ProgramSettings

MASK = "***"
# Shorter values are too common in ordinary text to be taken out of it.
SECRET_CHARS = 6


class Program:
    """Everything a child process gets. Never prints its environment."""

    __slots__ = ("_secrets", "argv", "cwd", "environment", "max_memory_bytes")

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        inherit: Sequence[str] = (),
        own: Mapping[str, str] | None = None,
        parent: Mapping[str, str] | None = None,
        max_memory_bytes: int = 0,
    ) -> None:
        """`inherit` names what the child gets of `parent`, the gateway's environment by
        default; `own` is what it gets beside that."""
        self.argv = tuple(argv)
        self.cwd = cwd
        self.environment = environment_of(os.environ if parent is None else parent, inherit, own)
        self.max_memory_bytes = max_memory_bytes
        values = (own or {}).values()
        # Longest first: one value may be part of another.
        self._secrets = sorted({v for v in values if len(v) >= SECRET_CHARS}, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Program({self.name!r})"

    @property
    def name(self) -> str:
        """For the log: the program without its folder."""
        return os.path.basename(self.argv[0])

    def without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def fault(self) -> str:
        """Why it cannot be started, for the operator; empty when it can."""
        if self.cwd and not os.path.isdir(self.cwd):
            return f"there is no folder {self.cwd}"
        if self.path() is None:
            return f"there is no program {self.argv[0]} that can be run"
        return ""

    def path(self) -> str | None:
        """Where the program is, looked up in the child's own PATH."""
        name = self.argv[0]
        if os.sep in name:
            # As the system would have it: relative to the folder that the program starts in.
            return shutil.which(os.path.join(self.cwd, name))
        return shutil.which(name, path=self.environment.get("PATH", os.defpath))


def environment_of(
    parent: Mapping[str, str], inherit: Sequence[str], own: Mapping[str, str] | None
) -> dict[str, str]:
    """Only what is listed, and what is given; a variable that is not set stays unset."""
    return {name: parent[name] for name in inherit if name in parent} | dict(own or {})


def program_of(settings: ProgramSettings) -> Program:
    return Program(
        settings.command,
        cwd=settings.cwd,
        inherit=settings.inherit_env,
        own={name: value.reveal() for name, value in settings.env.items()},
        max_memory_bytes=settings.max_memory_bytes,
    )
