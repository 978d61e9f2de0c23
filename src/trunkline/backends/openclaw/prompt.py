"""`Prompt`: a message in the form that OpenClaw takes, text with images beside it."""

import base64
from typing import Any, Final

from msgspec import UNSET, Struct

from trunkline.backends.model_content import is_textual
from trunkline.backends.openclaw.failures import Unfit
from trunkline.backends.openclaw.handshake import Hello
from trunkline.engine.session import DATA_ONLY, UNTRUSTED_DATA, labelled_data, untrusted_notes
from trunkline.model.session import MsgContext
from trunkline.model.values import Part
from trunkline.ports.backend import TurnRequest

# The limit of an OpenClaw that states none: 6 MiB.
MAX_IMAGE_BYTES: Final = 6 * 1024 * 1024
MAX_INLINE_BYTES: Final = 256 * 1024
# Bytes of a request beside its text and images.
_ENVELOPE: Final = 4096


class Prompt(Struct, frozen=True):
    text: str
    attachments: tuple[dict[str, Any], ...] = ()


def prompt_for(turn: TurnRequest, *, max_image_bytes: int = MAX_IMAGE_BYTES) -> Prompt:
    """The texts and files in their order, with images beside them, followed by data and metadata
    of the caller, framed so that no agent takes them for instructions. Raises Unfit."""
    message, context = turn.message, _context(turn)
    notes = untrusted_notes(message) if context is None else context.untrusted_context
    # Without such notes, the mapping of the profile puts data among the text.
    has_data_notes = any(note.startswith(UNTRUSTED_DATA) for note in notes)
    texts: list[str] = []
    images: list[dict[str, Any]] = []
    for index, part in enumerate(message.parts):
        if part.raw is not None and part.media_type.startswith("image/"):
            images.append(_image(part, index, max_image_bytes))
        elif part.data is UNSET:
            texts.append(_text(part, index))
        elif not has_data_notes:
            texts.append(labelled_data(part.data))
    text = "\n\n".join(text for text in texts if text)
    if not text.strip():
        if not images and not has_data_notes:
            raise Unfit("The message holds no text; write what the agent is to do.")
        # OpenClaw refuses an image without text.
        text = DATA_ONLY if has_data_notes else "See the attached image."
    return Prompt("\n\n".join((text, *notes)), tuple(images))


def _context(turn: TurnRequest) -> MsgContext | None:
    return None if turn.session is None else turn.session.context()


def _text(part: Part, index: int) -> str:
    if part.text is not None:
        return part.text
    name = part.filename or f"file {index + 1}"
    if part.url is not None:
        return f"{name} ({part.media_type or 'a file'}): {part.url}"
    return _inlined(part, index, name)


def _inlined(part: Part, index: int, name: str) -> str:
    raw = part.raw or b""
    media_type = part.media_type.partition(";")[0].strip().lower()
    if not is_textual(media_type):
        raise Unfit(
            f"message.parts[{index}] is a file of type {media_type or 'unknown'}, which this "
            "agent cannot take; send text, an image, or a link to the file."
        )
    if len(raw) > MAX_INLINE_BYTES:
        raise Unfit(
            f"message.parts[{index}] is larger than {MAX_INLINE_BYTES} bytes; send a link to it."
        )
    try:
        content = raw.decode()
    except UnicodeDecodeError:
        raise Unfit(
            f"message.parts[{index}] is said to be {media_type}, and is no UTF-8 text."
        ) from None
    return f"{name}:\n```\n{content}\n```"


def _image(part: Part, index: int, max_bytes: int) -> dict[str, Any]:
    raw = part.raw or b""
    if len(raw) > max_bytes:
        raise Unfit(
            f"message.parts[{index}] is larger than the {max_bytes} bytes that an image may have."
        )
    return {
        "type": "image",
        "mimeType": part.media_type,
        "fileName": part.filename or f"image-{index + 1}",
        "content": base64.b64encode(raw).decode(),
    }


def agent_params(turn: TurnRequest, session_key: str, run_id: str, hello: Hello) -> dict[str, Any]:
    """The parameters of `agent`. Raises Unfit."""
    prompt = prompt_for(turn, max_image_bytes=hello.max_image_bytes or MAX_IMAGE_BYTES)
    context = _context(turn)
    params: dict[str, Any] = {
        "sessionKey": session_key,
        "message": prompt.text,
        "idempotencyKey": run_id,
        # Otherwise OpenClaw could send the answer to a chat channel as well.
        "deliver": False,
    }
    if context is not None and context.originating_channel is not UNSET:
        channel = context.originating_channel
        params["inputProvenance"] = {"kind": "external_user", "sourceChannel": channel}
    if prompt.attachments:
        params["attachments"] = prompt.attachments
    size = len(prompt.text.encode()) + sum(len(one["content"]) for one in prompt.attachments)
    if hello.max_payload_bytes and size + _ENVELOPE > hello.max_payload_bytes:
        raise Unfit("The message is larger than the agent takes.")
    return params
