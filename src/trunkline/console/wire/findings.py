"""`findings_of`: what the rules of A2A say of a recorded exchange, in the form in which it was
sent."""

from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec.structs import replace

from trunkline.model.findings import Finding
from trunkline.ports.wire_log import WireBody, WireRecord
from trunkline.protocol.checks import Sent, StreamChecker, check, operation_of
from trunkline.protocol.operations import STREAMING

_CHECKS: Final = "Checks of the gateway"
_NOT_WHOLE: Final = "the record has not all of it, so it was not checked"
_CARD: Final = "GetAgentCard"


def findings_of(record: WireRecord) -> list[Finding]:
    """Pointers begin with the part of the record: `/request`, `/response` or `/frames`. Exchanges
    that are not A2A have no findings, and neither have requests that were not understood."""
    if record.binding not in ("jsonrpc", "rest") or record.version not in ("1.0", "0.3"):
        return []
    if record.operation == _CARD:
        return [*_below("response", _card(record))] if record.status == 200 else []
    return [
        *_below("request", _request(record)),
        *(
            _below("frames", _stream(record))
            if record.events
            else _below("response", _answer(record))
        ),
    ]


def _request(record: WireRecord) -> list[Finding]:
    if not _is_whole(record.request_body):
        return [_note()]
    sent = _sent(record, "request")
    query = urlsplit(record.url).query
    headers = {name.lower(): value for name, value in record.request_headers}
    return check(replace(sent, headers=headers, query=query, body=record.request_body.text or None))


def _answer(record: WireRecord) -> list[Finding]:
    # An open exchange, or one whose connection was lost, has no answer to judge.
    if record.status is None or record.ms is None or record.error:
        return []
    if not _is_whole(record.response_body):
        return [_note()]
    headers = {name.lower(): value for name, value in record.response_headers}
    sent = _sent(record, "response")
    return check(replace(sent, headers=headers, body=record.response_body.text or None))


def _stream(record: WireRecord) -> list[Finding]:
    # The order cannot be judged across a gap.
    frames = record.frames[: record.frames_before_gap] if record.frames_left_out else record.frames
    # A fault may have cut it.
    is_complete = (
        record.ms is not None
        and not record.error
        and not record.fault
        and not record.frames_left_out
    )
    checker = StreamChecker(
        binding="rest" if record.binding == "rest" else "jsonrpc",
        version="0.3" if record.version == "0.3" else "1.0",
        operation=record.operation if _is_streaming(record) else "SendStreamingMessage",
        is_resumed=any(name.lower() == "last-event-id" for name, _ in record.request_headers),
    )
    # The place in the record of each event that was checked: comments are frames as well.
    places: list[int] = []
    for place, frame in enumerate(frames):
        if not frame.is_injected and (data := _data(frame.data)):
            places.append(place)
            checker.feed(data, event_id=frame.event_id, event=frame.event)
    if is_complete:
        checker.close()
    return [_placed(each, places) for each in checker.findings]


def _is_streaming(record: WireRecord) -> bool:
    return operation_of(record.operation) in STREAMING


def _data(event: str) -> str:
    """The data of a server-sent event, which is recorded as its bytes were."""
    lines = event.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(each[5:].removeprefix(" ") for each in lines if each.startswith("data:"))


def _placed(found: Finding, places: list[int]) -> Finding:
    _, _, rest = found.pointer.partition("/")
    number, slash, inside = rest.partition("/")
    if not number.isdigit() or int(number) >= len(places):
        return found
    return replace(found, pointer=f"/{places[int(number)]}{slash}{inside}")


def _card(record: WireRecord) -> list[Finding]:
    if not _is_whole(record.response_body):
        return [_note()]
    return check(replace(_sent(record, "card"), body=record.response_body.text))


def _sent(record: WireRecord, direction: Literal["request", "response", "card"]) -> Sent:
    return Sent(
        direction=direction,
        binding="rest" if record.binding == "rest" else "jsonrpc",
        version="0.3" if record.version == "0.3" else "1.0",
        operation=record.operation,
        status=record.status,
    )


def _is_whole(body: WireBody) -> bool:
    """Whether the whole body is there, as text."""
    return isinstance(body.text, str) and len(body.text.encode("utf-8", "replace")) >= body.size


def _note() -> Finding:
    return Finding(_CHECKS, "note", "", _NOT_WHOLE)


def _below(part: str, found: list[Finding]) -> Iterator[Finding]:
    for each in found:
        yield replace(each, pointer=f"/{part}{each.pointer}")
