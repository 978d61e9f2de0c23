"""`ChecksApi`: the checks of messages against the rules of A2A, below `/api/v1/checks`."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET

from trunkline.api.api import Call, Route
from trunkline.api.check_types import CheckRequest, CheckResult
from trunkline.model.errors import InvalidParams
from trunkline.model.findings import FINDING_TEXTS, Finding
from trunkline.protocol.checks import Sent, card_report, check, check_order

_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
# Smaller messages take less than the change of threads.
_SMALL_BYTES: Final = 64 * 1024
_TEXTS: Final[Mapping[str, str]] = {
    "CheckRequest.direction": "What the message is: a `request`, its `response`, one `event` of a "
    "stream (its data), or a `card`. With `events` it is not needed.",
    "CheckRequest.binding": "How it was sent: `jsonrpc`, or `rest` for HTTP+JSON.",
    "CheckRequest.version": "The version of A2A whose rules count. `hub` is the form of seed hubs, "
    "which is not A2A.",
    "CheckRequest.operation": "The name of the operation, or of its JSON-RPC method.",
    "CheckRequest.status": "The HTTP status of a response.",
    "CheckRequest.headers": "The headers, by their names. Without them none is checked.",
    "CheckRequest.query": "The query of the request. Without it, `A2A-Version` may be in it.",
    "CheckRequest.body": "The message as JSON.",
    "CheckRequest.text": "The message as it was sent, where it may not be JSON.",
    "CheckRequest.events": "The events of a stream in their order, of which the order is checked "
    "as well: the data of each as JSON or text, or objects with `data`, `eventId` and `event`.",
    "CheckRequest.resumed": "Whether the request had `Last-Event-ID`, so that the stream begins in "
    "the middle.",
    "CheckRequest.complete": "Whether these are all events of the stream: it was not cut off and "
    "is not under way.",
    "CheckResult.findings": "What was found. The last ones say what was not shown or not checked.",
    **FINDING_TEXTS,
}


class ChecksApi:
    def routes(self) -> Iterator[Route]:
        yield Route(
            method="POST",
            path="/checks",
            name="check_message",
            summary="Check a message, a card or a stream against the rules of A2A.",
            description="Nothing is sent or stored. At most 100 findings are returned.",
            handle=self._check,
            body=CheckRequest,
            example=CheckRequest(
                direction="request",
                operation="GetTask",
                body={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "1"}},
            ),
            result=CheckResult,
            texts=_TEXTS,
            max_body_bytes=lambda: _MAX_BODY_BYTES,
        )

    async def _check(self, call: Call) -> CheckResult:
        given: CheckRequest = call.body
        sources = (given.body is not UNSET, given.text is not None, given.events is not None)
        if sum(sources) != 1:
            raise InvalidParams.at("body", "send exactly one of body, text and events")
        length = call.request.headers.get("content-length", "")
        if length.isdecimal() and int(length) < _SMALL_BYTES and given.events is None:
            return CheckResult(findings=findings_of(given))
        # Other requests are served meanwhile.
        return CheckResult(findings=await asyncio.to_thread(findings_of, given))


def findings_of(given: CheckRequest) -> list[Finding]:
    if given.version == "auto":
        if given.direction != "card" or given.events is not None:
            raise InvalidParams.at("version", "is needed; auto is for cards")
        return card_report(given.body if given.body is not UNSET else given.text)
    if given.events is not None:
        return check_order(
            given.events,
            binding=given.binding,
            version=given.version,
            operation=given.operation or "SendStreamingMessage",
            is_resumed=given.resumed,
            is_complete=given.complete,
        )
    headers = given.headers
    return check(
        Sent(
            direction=given.direction,
            binding=given.binding,
            version=given.version,
            operation=given.operation,
            status=given.status,
            headers=None if headers is None else {n.lower(): v for n, v in headers.items()},
            query=given.query,
            body=given.body if given.body is not UNSET else given.text,
        )
    )
