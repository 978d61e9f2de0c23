"""Files of a message in a folder that only the program's user can read."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from trunkline.backends.programs.prompt import File, safe_name


class Attachments:
    """A private folder, made when the first file comes, and removed in the end."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    @property
    def is_used(self) -> bool:
        return self._folder is not None

    @property
    def folder(self) -> Path:
        if self._folder is None:
            # Mode 0700, and a name that nobody can guess.
            self._folder = Path(tempfile.mkdtemp(prefix="trunkline-"))
        return self._folder

    def write(self, files: Iterable[File]) -> list[str]:
        """Their paths. No file takes the place of an earlier one."""
        paths: list[str] = []
        for file in files:
            taken = [path.name for path in self.folder.iterdir()]
            path = self.folder / safe_name(file.name, taken=taken)
            path.write_bytes(file.data)
            paths.append(str(path))
        return paths

    def remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
