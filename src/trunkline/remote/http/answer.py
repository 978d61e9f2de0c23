"""Answers, and their heads."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from trunkline.remote.errors import BadPeerAnswer

SSE: Final = "text/event-stream"


def headers_of(lines: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Names in lower case; what came several times is one value, joined by commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in lines:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


class Answer(Struct, frozen=True):
    """The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return media_type(self.headers)


def refusal_of(status: int, headers: Mapping[str, str]) -> BadPeerAnswer | None:
    """Why an answer is not read at all, if so."""
    if 300 <= status < 400 and status != 304:
        # The place it points to was not chosen by whoever chose the target. Nor is it shown: a
        # peer may put anything there, what we sent included. Most mean the same place with TLS.
        is_tls = headers.get("location", "").lower().startswith("https://")
        hint = ", which begins with https://" if is_tls else ""
        return BadPeerAnswer(
            f"the agent redirects (status {status}); use the url it redirects to{hint}",
            reason="REDIRECT",
        )
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        return BadPeerAnswer(
            f'the answer is compressed with "{encoding[:32]}", which was not asked for',
            reason="WRONG_TYPE",
        )
    return None


def too_large(max_bytes: int) -> BadPeerAnswer:
    return BadPeerAnswer(f"the answer is larger than {max_bytes} bytes", reason="TOO_LARGE")
