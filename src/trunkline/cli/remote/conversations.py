"""What was talked about last with each target, so that `--continue` can go on with it."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.cli.program import program
from trunkline.model.errors import ConfigError
from trunkline.settings.paths import data_dir, make_private_dir

FILE_NAME: Final = "conversations.json"
# Those not talked to for longest are forgotten first.
_KEPT: Final = 200


class Conversation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    context_id: str = ""
    task_id: str = ""


class Conversations:
    """A file for its owner alone. One that cannot be read counts as empty."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or data_dir() / FILE_NAME

    def last(self, url: str) -> Conversation | None:
        return self._read().get(_key(url))

    def remember(self, url: str, conversation: Conversation) -> None:
        """Raises OSError and ConfigError."""
        known = self._read()
        known.pop(_key(url), None)
        known[_key(url)] = conversation
        kept = dict(list(known.items())[-_KEPT:])
        make_private_dir(self._file.parent)
        # Whoever reads meanwhile sees the old file or the new one.
        handle, name = tempfile.mkstemp(dir=self._file.parent, prefix=f".{FILE_NAME}.")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(msgspec.json.encode(kept))
            Path(name).replace(self._file)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def _read(self) -> dict[str, Conversation]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, Conversation])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}


def _key(url: str) -> str:
    return url.rstrip("/")


def task_or_last(task_id: str, url: str, named: str) -> str:
    """The task that is meant. Raises ConfigError when nothing tells."""
    if task_id:
        return task_id
    last = Conversations().last(url)
    if last is None or not last.task_id:
        raise ConfigError(
            f"no task of {named} is known here. Name one: `{program()} list {named}` has them."
        )
    return last.task_id
