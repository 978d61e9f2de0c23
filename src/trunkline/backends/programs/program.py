"""`Program`: a command with its working directory and its environment."""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec

from trunkline.backends.programs.settings import ProgramSettings
from trunkline.config.secret import revealed
from trunkline.extras import install_command
from trunkline.ports.backend import Finding


class Program:
    """Everything a child process gets. Never prints its environment."""

    __slots__ = ("environment", "settings")

    def __init__(self, settings: ProgramSettings, parent: Mapping[str, str] = os.environ) -> None:
        """`parent` is the environment of the gateway; a variable that is unset there stays so."""
        self.settings = settings
        inherited = {name: parent[name] for name in settings.inherit_env if name in parent}
        self.environment = inherited | revealed(settings.env)

    def __repr__(self) -> str:
        return f"Program({self.name!r})"

    @property
    def name(self) -> str:
        """For the log: the program without its folder."""
        return os.path.basename(self.settings.command[0])

    def fault(self) -> str:
        """Why it cannot be started, for the operator; empty when it can."""
        if self.settings.cwd and not os.path.isdir(self.settings.cwd):
            return f"there is no folder {self.settings.cwd}"
        if self.path() is None:
            return f"there is no program {self.settings.command[0]} that can be run"
        return ""

    def path(self) -> str | None:
        """Where the program is, looked up in the child's own PATH."""
        name = self.settings.command[0]
        if os.sep in name:
            # Relative to the working directory of the child, as for the system itself.
            return shutil.which(os.path.join(self.settings.cwd, name))
        return shutil.which(name, path=self.environment.get("PATH", os.defpath))

    def without_mcp(self) -> Finding | None:
        """The finding that the tools of a program that takes them over MCP are not served so; None
        where they are, or where it has none."""
        if not self.settings.tools or find_spec("mcp") is not None:
            return None
        return Finding(
            "error",
            "the key tools has no effect: the gateway cannot serve them over MCP",
            f"Install the package: {install_command('mcp')}",
        )

    def missing(self) -> Finding | None:
        """The finding about a program that cannot be started; None when it can."""
        remedy = "Install it, or correct `command` and `cwd`; PATH is that of `inherit_env`."
        return Finding("error", fault, remedy) if (fault := self.fault()) else None
