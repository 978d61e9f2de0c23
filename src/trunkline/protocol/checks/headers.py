"""`check_headers`: the headers of a request or a response."""

import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import parse_qsl

from trunkline.protocol.checks.findings import Report, shown

_JSON: Final = ("application/json",)
_REST: Final = ("application/a2a+json", "application/json")
_SSE: Final = "text/event-stream"
_VERSION: Final = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}", re.ASCII)
_PATCH: Final = re.compile(r"([0-9]{1,4}\.[0-9]{1,4})\.[0-9]{1,9}", re.ASCII)


def check_headers(
    report: Report,
    headers: Mapping[str, str],
    *,
    direction: Literal["request", "response"],
    version: str,
    binding: str,
    is_stream: bool,
    status: int | None,
    query: str | None,
    has_body: bool,
) -> None:
    given = {str(name).lower(): str(value) for name, value in headers.items()}
    rule = _rule(version, binding)
    content_type = given.get("content-type", "").partition(";")[0].strip().lower()
    known = _JSON if binding == "jsonrpc" else _REST
    if direction == "request":
        _check_version(report, given.get("a2a-version"), query, version)
        if has_body and content_type not in known:
            said = shown(content_type) if content_type else "missing"
            report.error(rule, "", f"Content-Type must be {' or '.join(known)}, and is {said}")
        elif not has_body and content_type and content_type not in known:
            report.note(rule, "", f"Content-Type is {shown(content_type)}, without a body")
        return
    if is_stream and content_type == _SSE:
        return
    if is_stream and status is not None and status < 400 and binding == "rest":
        said = shown(content_type) if content_type else "missing"
        report.error(rule, "", f"a stream has the Content-Type {_SSE}, and it is {said}")
        return
    if not has_body and status in (204, 304):
        return
    # 0.3, 3.3.1: a stream that is refused may be a stream of one error.
    if content_type not in known:
        said = shown(content_type) if content_type else "missing"
        report.error(rule, "", f"Content-Type must be {' or '.join(known)}, and is {said}")


def _rule(version: str, binding: str) -> str:
    if version == "1.0":
        return "A2A 1.0 §9" if binding == "jsonrpc" else "A2A 1.0 §11.1"
    return f"A2A {version} content types"


def _check_version(report: Report, header: str | None, query: str | None, version: str) -> None:
    in_query = _query_version(query)
    stated = header if header and header.strip() else in_query
    if not stated or not stated.strip():
        if version == "1.0":
            text = "the request has no A2A-Version, so it is one of 0.3"
            if query is None:
                # The query parameter counts as well, and it is not known.
                report.warning("A2A 1.0 §3.6.2", "", f"{text}, unless its query has one")
            else:
                report.error("A2A 1.0 §3.6.2", "", text)
        return
    stated = stated.strip()
    patch = _PATCH.fullmatch(stated)
    if patch is not None:
        text = f"A2A-Version is {shown(stated)}; it should have no patch number"
        report.warning("A2A 1.0 §3.6", "", text)
        stated = patch[1]
    if _VERSION.fullmatch(stated) is None:
        report.error("A2A 1.0 §3.6", "", f"A2A-Version is {shown(stated)}, not MAJOR.MINOR")
    elif stated != version:
        text = f"A2A-Version is {shown(stated)}, and the request is one of {version}"
        report.error("A2A 1.0 §3.6", "", text)
    if header and in_query and header.strip() != in_query.strip():
        report.warning("A2A 1.0 §3.6", "", "header and query state different versions")


def _query_version(query: str | None) -> str | None:
    # A query that is as long as this holds no version that a server reads.
    if not query or len(query) > 65_536:
        return None
    try:
        pairs = parse_qsl(query, max_num_fields=1000)
    except ValueError:
        return None
    return next((value for name, value in pairs if name.lower() == "a2a-version"), None)
