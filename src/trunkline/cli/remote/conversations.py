"""`Conversations`: the last conversation with each agent, which `--continue` continues."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.cli.output import program
from trunkline.model.card import AgentCard
from trunkline.model.errors import ConfigError
from trunkline.remote import RemoteAgent
from trunkline.settings.stores import data_dir, make_private_dir

FILE_NAME: Final = "conversations.json"
# The oldest conversations are forgotten first.
_KEPT: Final = 200


class Conversation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    context_id: str = ""
    task_id: str = ""


class Conversations:
    """A file that only its owner can read. An unreadable file counts as empty."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or data_dir() / FILE_NAME

    def last(self, *addresses: str) -> Conversation | None:
        """The last conversation with the first address that has one."""
        known = self._read()
        return next((known[key] for key in map(_key, addresses) if key in known), None)

    def remember(self, address: str, conversation: Conversation) -> None:
        """Raises OSError and ConfigError."""
        known = self._read()
        known.pop(_key(address), None)
        known[_key(address)] = conversation
        kept = dict(list(known.items())[-_KEPT:])
        make_private_dir(self._file.parent)
        # Another process that reads meanwhile sees the old file or the new one.
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


def _key(address: str) -> str:
    return address.rstrip("/")


def address_of(card: AgentCard) -> str:
    """The address in the card, which is the same however a user spells the url."""
    for interface in card.supported_interfaces:
        return f"{interface.url}#{interface.tenant}" if interface.tenant else interface.url
    return ""


def last_with(agent: RemoteAgent, card: AgentCard) -> Conversation | None:
    # Earlier releases remembered the url as it was typed.
    return Conversations().last(address_of(card), agent.target.url)


def task_or_last(task_id: str, agent: RemoteAgent, card: AgentCard, named: str) -> str:
    """The task, or the last one with this agent. Raises ConfigError."""
    if task_id:
        return task_id
    last = last_with(agent, card)
    if last is None or not last.task_id:
        raise ConfigError(
            f"no earlier task with {named} is known. Name one of: {program()} list {named}"
        )
    return last.task_id
