"""`Channel`: the gateway as the channel `a2a` of OpenClaw, or of another host with channels.

Messages come in by A2A and their answers go back on the task. The channel takes two things
from its host: follow-ups on a task that exists, and, to refuse them, sends out of the blue.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from msgspec import Struct

from trunkline.model.errors import UnsupportedOperation
from trunkline.model.session import Delivered, ReplyPayload
from trunkline.runtime.queued_replies import TASK_REQUIRED, QueuedReplies

PLUGIN_ID: Final = "openclaw-a2a-inbound"
OUTBOUND_UNSUPPORTED: Final = (
    "A2A_OUTBOUND_DELIVERY_UNSUPPORTED: openclaw-a2a-inbound does not implement "
    "OpenClaw-initiated outbound delivery. Use openclaw-a2a-outbound for delegated outbound A2A "
    "calls."
)
_NOT_RUNNING: Final = "A2A_QUEUED_REPLY_ACCOUNT_NOT_RUNNING"


class Account(Struct, frozen=True):
    """A running account: its agent, and the follow-ups that append to its tasks."""

    agent: str
    follow_ups: QueuedReplies


class Channel:
    id: Final = "a2a"
    label: Final = "A2A Inbound"
    selection_label: Final = "A2A Inbound (JSON-RPC)"
    docs_path: Final = "/channels/a2a"
    aliases: Final = ("a2a",)
    capabilities: Final[Mapping[str, Any]] = {
        "chatTypes": ["direct"],
        # Replies of a turn go to its own task, never through the generic adapter.
        "reply": False,
        "blockStreaming": True,
    }
    # Only the accounts have configuration.
    config_schema: Final[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {},
    }
    delivery_mode: Final = "direct"
    queued_reply_mode: Final = "protocol"

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts

    def send_text(self, *_: Any, **__: Any) -> NoReturn:
        """Always refused: A2A has no open connection on which to start a conversation."""
        raise UnsupportedOperation(OUTBOUND_UNSUPPORTED)

    async def deliver_queued_reply(
        self,
        payload: ReplyPayload,
        *,
        thread_id: object,
        account_id: str = "",
        to: str = "",
        session_key: str = "",
    ) -> Delivered:
        """Append a follow-up to the task that `thread_id` names.

        `session_key` is the host's own affair and goes no further than here.
        """
        del session_key
        if not isinstance(thread_id, str) or not thread_id.strip():
            return Delivered(ok=False, error=TASK_REQUIRED)
        name = account_id or (to.removeprefix("a2a:") if to.startswith("a2a:") else "")
        if not name and len(self._accounts) == 1:
            name = next(iter(self._accounts))
        if not name:
            text = "queued A2A protocol reply could not resolve a running inbound account."
            return Delivered(ok=False, error=f"{_NOT_RUNNING}: {text}")
        account = self._accounts.get(name)
        if account is None:
            text = f'inbound A2A account "{name}" is not running.'
            return Delivered(ok=False, error=f"{_NOT_RUNNING}: {text}")
        return await account.follow_ups.deliver(thread_id, payload, agent=account.agent, to=to)
