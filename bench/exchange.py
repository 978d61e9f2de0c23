"""What the load generator asks and how it judges the answer: the seam between client and cases."""

import json
from typing import Protocol

# Numbers of requests keep one width, so that a prepared request has a constant Content-Length.
FIRST_NUMBER = 10_000_000


class Exchange(Protocol):
    def request(self, number: int) -> bytes:
        """The whole HTTP request, as bytes."""

    def verdict(self, number: int, status: int, body: bytes) -> str | None:
        """Why the answer is wrong, or None when it is right."""


class Prepared:
    """A request made once; only the places that held FIRST_NUMBER change."""

    def __init__(self, path: str, payload: object, headers: dict[str, str]) -> None:
        body = json.dumps(payload, separators=(",", ":")).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        whole = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        marker = str(FIRST_NUMBER).encode()
        self._places = whole.count(marker)
        self._template = whole.replace(b"%", b"%%").replace(marker, b"%d")

    def numbered(self, number: int) -> bytes:
        return self._template % ((number,) * self._places)
