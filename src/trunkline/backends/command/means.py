"""What all turns of one command backend share."""

from dataclasses import dataclass

from trunkline.backends.command.format import Format
from trunkline.backends.programs.child import Child
from trunkline.backends.programs.children import Children, TooMany
from trunkline.backends.programs.program import Program
from trunkline.backends.programs.prompt import Attachments
from trunkline.backends.programs.sessions import Pool, Sessions
from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock


@dataclass(frozen=True, slots=True, eq=False)
class Speaker:
    """A program that runs, and the files that it was given."""

    child: Child
    attachments: Attachments
    # It has answered before.
    is_reused: bool = False


@dataclass(slots=True, kw_only=True)
class Means:
    program: Program
    format: Format
    children: Children
    # None where each turn has a process of its own.
    pool: Pool[Speaker] | None
    sessions: Sessions
    clock: Clock
    tasks: BackgroundTasks
    # Files that are no text are put into a folder; else they are refused.
    has_folder: bool

    async def start(self, arguments: tuple[str, ...], variables: dict[str, str]) -> Child:
        """A new process. Raises CannotStart and TooMany."""
        while True:
            try:
                return await self.children.spawn(self.program, arguments, variables)
            except TooMany:
                if self.pool is None or not await self.pool.retire_one():
                    raise

    async def dismiss(self, speaker: Speaker) -> None:
        """Nothing more will be asked of it."""
        try:
            await self.children.stop(speaker.child)
        finally:
            speaker.attachments.remove()
