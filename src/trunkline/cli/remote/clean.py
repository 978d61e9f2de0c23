"""What a terminal may be shown of what somebody else wrote."""

import re
from typing import Final

# Whole sequences first, so that nothing of them is left to read: CSI, then strings such as
# OSC up to their end, then the two-character ones.
_SEQUENCE: Final = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c|$)"
    "|\x1b[ -/]*[0-~]?"
)
# Also the marks that turn the direction of writing, with which one text passes for another.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
_UNESCAPED: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Without control characters but for line breaks and tabs."""
    if text.isprintable():
        return text
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    return " ".join(clean(text).split())


def clean_json(text: str) -> str:
    """JSON escapes few control characters itself; the rest can only be inside of strings."""
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
