"""A session as the host of channels knows it: its key, its messages and later replies."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field


class Peer(Struct, frozen=True, kw_only=True):
    """The caller in a session, and the agent that it talks to."""

    # It comes from a credential alone, because the metadata of a message may claim anything.
    principal: str
    tenant: str = ""
    is_anonymous: bool = True
    agent_id: str
    account_id: str
    context_id: str
    # Empty as long as a run has no task.
    task_id: str = ""
    # The key of the session, where the profile does not decide it.
    session_key: str = ""


class Routing(Struct, frozen=True, kw_only=True):
    """The session and the agent of a task, as a record shows them to other programs."""

    agent_id: str
    account_id: str
    session_key: str
    # The origin of the session: a principal, or the context alone.
    peer_id: str
    peer_source: str


class MsgContext(Struct, frozen=True, kw_only=True, rename="pascal"):
    """One inbound message with all that a host of channels needs to route it.

    The names are those of the host. Text of the peer is in the bodies and in
    `untrusted_context`, and nowhere else.
    """

    body: str
    body_for_agent: str
    raw_body: str
    command_body: str
    body_for_commands: str
    untrusted_context: tuple[str, ...] = ()
    from_: str = field(name="From")
    to: str
    session_key: str
    account_id: str
    chat_type: Literal["direct"] = "direct"
    conversation_label: str
    sender_id: str
    sender_name: str
    command_authorized: bool
    provider: str
    surface: str
    message_sid: str
    message_sid_full: str
    message_thread_id: str | UnsetType = UNSET
    timestamp: int
    # Set only where the host may route further replies by itself.
    originating_channel: str | UnsetType = UNSET
    originating_to: str | UnsetType = UNSET
    a2a_task_id: str | UnsetType = field(default=UNSET, name="A2ATaskId")
    a2a_context_id: str = field(name="A2AContextId")


class ReplyPayload(Struct, frozen=True, kw_only=True):
    """A reply as hosts of channels put it together. Empty members say nothing."""

    text: str = ""
    media_urls: tuple[str, ...] = ()
    channel_data: dict[str, Any] | None = None
    is_error: bool = False
    audio_as_voice: bool = False
    reply_to_id: str = ""


class Delivered(Struct, frozen=True, kw_only=True):
    """The outcome of a follow-up. `error` begins with a code and names the missing part."""

    ok: bool
    # The artifact that holds it; empty when there was nothing to deliver.
    message_id: str = ""
    error: str = ""
