"""What is refused before any JSON parser sees it."""

import re

from trunkline.model.errors import InvalidRequest, ParseFailed

# A string, or a run of brackets. Strings come first so that a bracket inside one
# is never counted; an unterminated string swallows the rest, which the parser
# refuses anyway. Possessive quantifiers keep the scan linear.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


def check_json(body: bytes, *, max_depth: int) -> None:
    """Refuse broken UTF-8 (ParseFailed) and nesting beyond `max_depth` (InvalidRequest)."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise ParseFailed(f"the body is not valid UTF-8 (byte {error.start})") from None
    # Depth cannot exceed the number of opening brackets, so most bodies need no scan.
    if body.count(b"{") + body.count(b"[") > max_depth and _depth_exceeds(body, max_depth):
        raise InvalidRequest(f"the JSON is nested deeper than {max_depth} levels")


def _depth_exceeds(body: bytes, max_depth: int) -> bool:
    depth = 0
    for token in _TOKEN.finditer(body):
        byte = body[token.start()]
        if byte in b"{[":
            depth += 1
            if depth > max_depth:
                return True
        elif byte in b"}]":
            depth -= 1
    return False
