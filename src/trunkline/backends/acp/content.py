"""A message as the content blocks that an agent takes. No I/O."""

import base64
from typing import Any

from trunkline.backends.programs import failures
from trunkline.backends.programs.frames import table
from trunkline.backends.programs.prompt import CannotTell, File, Prompt


def blocks(prompt: Prompt, capabilities: dict[str, Any]) -> list[dict[str, Any]]:
    """`capabilities` are those that the agent announced. Raises CannotTell."""
    able = table(capabilities.get("promptCapabilities"))
    made = [_file(file, able) for file in prompt.files]
    if prompt.text.strip():
        made.append({"type": "text", "text": prompt.text})
    if not made:
        raise CannotTell("The message is empty.")
    return made


def _file(file: File, able: dict[str, Any]) -> dict[str, Any]:
    data = base64.b64encode(file.data).decode()
    for kind in ("image", "audio"):
        if file.media_type.startswith(f"{kind}/") and able.get(kind) is True:
            return {"type": kind, "mimeType": file.media_type, "data": data}
    if able.get("embeddedContext") is True:
        uri = f"attachment:///{file.name.replace(' ', '%20')}"
        resource = {"uri": uri, "mimeType": file.media_type, "blob": data}
        return {"type": "resource", "resource": resource}
    raise CannotTell(failures.takes_no_file(file.media_type))
