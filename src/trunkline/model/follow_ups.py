"""What an agent says on a task after the turn that led to it."""

from typing import Any

from msgspec import Struct


class ReplyPayload(Struct, frozen=True, kw_only=True):
    """A reply as hosts of channels put it together. Empty members say nothing."""

    text: str = ""
    media_urls: tuple[str, ...] = ()
    channel_data: dict[str, Any] | None = None
    is_error: bool = False
    audio_as_voice: bool = False
    reply_to_id: str = ""


class Delivered(Struct, frozen=True, kw_only=True):
    """What became of a follow-up. `error` begins with a code and says what was missing."""

    ok: bool
    # The artifact that holds it; empty when there was nothing to deliver.
    message_id: str = ""
    error: str = ""
