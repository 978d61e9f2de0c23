"""`HubHttp`: the requests of the Python client of the hub, and its errors."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from trunkline.api.api import PREFIX
from trunkline.model.errors import FieldViolation
from trunkline.ports.clock import Clock
from trunkline.protocol.client_responses import http_refusal
from trunkline.remote.errors import BadPeerAnswer, InvalidTarget, PeerRefused
from trunkline.remote.http import Answer, Guard, HttpClient, Network, build_request
from trunkline.remote.responses import ResponseReader
from trunkline.remote.retries import call_timeout
from trunkline.remote.target import Limits, check_header, check_url, masked

T = TypeVar("T")
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"


class HubRefused(PeerRefused):
    """The hub said no. `status` is that of HTTP, `reason` is for programs, and `retry_after_s` says
    when to try again."""

    # The fields of the request that are wrong.
    fields: tuple[FieldViolation, ...] = ()


class HubHttp:
    """`headers` hold the credential. It is sent to the origin of the URL and to no other."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        limits: Limits,
        clock: Clock,
        network: Network | None = None,
    ) -> None:
        """Raises InvalidTarget."""
        check_url(url)
        if "?" in url or "#" in url:
            raise InvalidTarget("the url of a gateway has neither a query nor a fragment")
        for name, value in headers.items():
            check_header(name, value)
        self._base = url.rstrip("/") + PREFIX
        self._headers = {**headers, "Accept": "*/*"}
        self._limits = limits
        self._http = HttpClient(Guard.of(url), network=network)
        self._secrets = tuple(value.removeprefix("Bearer ") for value in headers.values())
        self._reader = ResponseReader(clock, lambda: self._secrets)

    async def close(self) -> None:
        await self._http.close()

    async def value(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        query: Struct | None = None,
        body: Any = None,
    ) -> T:
        answer = await self._answer(method, path, query, body, _JSON)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadPeerAnswer(f"the hub answers with something else: {error}") from None

    async def text(
        self,
        method: str,
        path: str,
        *,
        query: Struct | None = None,
        body: Any = None,
    ) -> str:
        """The body of an answer that is not JSON."""
        answer = await self._answer(method, path, query, body, _JSON)
        return answer.body.decode(errors="replace")

    async def form(self, kind: type[T], method: str, path: str, *, body: Struct) -> T:
        """A call whose body is a form, as OAuth has it."""
        answer = await self._answer(method, path, None, body, _FORM)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadPeerAnswer(f"the hub answers with something else: {error}") from None

    async def nothing(
        self,
        method: str,
        path: str,
        *,
        query: Struct | None = None,
        body: Any = None,
    ) -> None:
        await self._answer(method, path, query, body, _JSON)

    async def _answer(
        self, method: str, path: str, query: Struct | None, body: Any, media_type: str
    ) -> Answer:
        """Raises RemoteError."""
        url = self._base + path
        if query is not None and (asked := _query(query)):
            url = f"{url}?{asked}"
        headers = dict(self._headers)
        data: bytes | None = None
        if body is not None:
            headers["Content-Type"] = media_type
            is_form = media_type == _FORM
            data = _query(body).encode() if is_form else msgspec.json.encode(body)
        request = build_request(method, url, headers, data)
        with call_timeout(self._limits.call_s):
            limit = self._limits.max_body_bytes
            answer = await self._http.fetch(request, self._limits, max_bytes=limit)
        if 200 <= answer.status < 300:
            return answer
        raise self._refused(answer)

    def _refused(self, answer: Answer) -> HubRefused:
        refusal = http_refusal(answer.status, answer.body)
        refused = self._reader.refused(refusal, answer)
        message, reason = refused.message, refused.reason
        if not refusal.message:
            told = _oauth_refusal(answer.body)
            described = masked(told.error_description, self._secrets)[:2000]
            message = described or f"the hub answered with {answer.status}"
            reason = masked(told.error, self._secrets) or reason
        error = HubRefused(
            message,
            code=refused.code,
            reason=reason,
            data=refused.data,
            status=refused.status,
        )
        error.retry_after_s = refused.retry_after_s
        error.fields = tuple(_fields(refused.data))
        return error


def path_of(template: str, **names: str) -> str:
    """The path with these names in it, each in one segment."""
    return template.format(**{name: quote(value, safe="") for name, value in names.items()})


def _query(struct: Struct) -> str:
    """The fields that have another value than their default."""
    given: dict[str, Any] = {}
    values = msgspec.to_builtins(struct)
    for field in msgspec.structs.fields(struct):
        if field.encode_name not in values or getattr(struct, field.name) == field.default:
            continue
        value = values[field.encode_name]
        given[field.encode_name] = str(value).lower() if isinstance(value, bool) else value
    return urlencode(given)


class _OAuthRefusal(Struct):
    """RFC 6749, 5.2."""

    error: str = ""
    error_description: str = ""


def _oauth_refusal(body: bytes) -> _OAuthRefusal:
    try:
        return msgspec.json.decode(body, type=_OAuthRefusal)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _OAuthRefusal()


def _fields(details: Any) -> list[FieldViolation]:
    found: list[FieldViolation] = []
    for detail in details if isinstance(details, list) else ():
        violations = detail.get("fieldViolations", ()) if isinstance(detail, dict) else ()
        for each in violations:
            try:
                found.append(msgspec.convert(each, FieldViolation))
            except msgspec.ValidationError:
                continue
    return found
