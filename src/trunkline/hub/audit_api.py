"""`AuditApi`: the routes of the audit: the inbound report, which tells an owner who has called an
agent; and for operators, the rows of the audit and their verification."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Annotated, Final, Protocol

from msgspec import Meta, Struct

from trunkline.api.api import Call, Route
from trunkline.hub.audit_pages import MAX_TOKEN_CHARS, TOKEN, AuditPages
from trunkline.hub.audit_reading import AuditReader
from trunkline.hub.audit_rows import Line, RowKind
from trunkline.hub.audit_verify import verify
from trunkline.hub.inbound import Inbound, InboundReport
from trunkline.model.errors import (
    InvalidParams,
    PermissionDenied,
    RouteNotFound,
    TooManyRequests,
    Unavailable,
    UnsupportedOperation,
)
from trunkline.model.principal import Principal, manages
from trunkline.model.timestamps import format_timestamp, parse_timestamp
from trunkline.ports.clock import Clock
from trunkline.ports.records import Key, Record
from trunkline.ports.store import Store

MAX_DAYS: Final = 30
MAX_PAGE: Final = 200
# Rows that one verification over HTTP reads at most: some seconds of work.
MAX_VERIFIED: Final = 500_000
_MAX_CHARS: Final = 200
_AGAIN_S: Final = 5


class InboundQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    days: Annotated[int, Meta(ge=1, le=MAX_DAYS)] = 7


class FindAgent(Protocol):
    async def __call__(self, agent_id: str, caller: Principal) -> str | None:
        """The handle of the agent; None for one that the caller may not know. Raises StoreError."""
        ...


_Text = Annotated[str, Meta(max_length=_MAX_CHARS)]


class AuditQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    kind: RowKind | None = None
    agent: _Text = ""
    who: _Text = ""
    q: _Text = ""
    since: Annotated[str, Meta(max_length=40)] = ""
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    page_token: Annotated[str, Meta(max_length=MAX_TOKEN_CHARS, pattern=TOKEN)] = ""


class AuditRowView(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A row of the audit. Members that are empty in the row are absent."""

    chain: str
    number: int
    at: str
    kind: RowKind
    hash: str
    id: str = ""
    who: str = ""
    token: str = ""
    acting_for: tuple[str, ...] = ()
    asked_by: str = ""
    tenant: str = ""
    source: str = ""
    agent: str = ""
    operation: str = ""
    binding: str = ""
    task_id: str = ""
    context_id: str = ""
    outcome: str = ""
    reason: str = ""
    ran_ms: int | None = None
    took_ms: int | None = None
    question: str = ""
    count: int = 1
    action: str = ""
    subject: str = ""
    detail: str = ""
    recovered_from: str = ""


class AuditPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[AuditRowView]
    next_page_token: str
    read_to: str | None


class AuditFault(Struct, frozen=True, kw_only=True, rename="camel"):
    what: str
    chain: str
    number: int


class Verification(Struct, frozen=True, kw_only=True, rename="camel"):
    is_sound: bool
    rows: int
    chains: int
    faults: list[AuditFault]
    more_faults: int
    newest_chain: str
    newest_hash: str
    verified_at: str


_TEXTS: Final = {
    "AuditQuery.kind": "Only rows of this kind.",
    "AuditQuery.agent": "Only rows about this agent.",
    "AuditQuery.who": "Only rows of this principal, or of this address.",
    "AuditQuery.q": "A text that occurs in one of the members of the row.",
    "AuditQuery.since": "Only rows from this time on, as RFC 3339 has it.",
    "AuditPage.items": "The rows, the newest first. With a filter there may be fewer than asked "
    "for, or none, although older ones fit: follow `nextPageToken`.",
    "AuditPage.readTo": "The time of the oldest row that was looked at; null where there was none.",
    "AuditRowView.chain": "The chain, which is that of one start of a gateway.",
    "AuditRowView.number": "The number of the row in its chain, from 1.",
    "AuditRowView.at": "The time of what the row is about.",
    "AuditRowView.kind": "An attempt to call an agent, its outcome, a refusal, an administrative "
    "change, or a number of rows that were lost.",
    "AuditRowView.hash": "SHA-256 of the hash before and of the row.",
    "AuditRowView.id": "Joins an attempt with its outcome.",
    "AuditRowView.who": "The id of the principal; absent for a caller without a credential.",
    "AuditRowView.token": "The id of the credential.",
    "AuditRowView.actingFor": "The principals that `who` acts for, the first caller first.",
    "AuditRowView.askedBy": "The agent that asked, for a call of one agent to another.",
    "AuditRowView.tenant": "The tenant of the caller.",
    "AuditRowView.source": "The address of a caller without a credential.",
    "AuditRowView.agent": "The agent that was called.",
    "AuditRowView.operation": "The operation of A2A, or the request.",
    "AuditRowView.binding": "The binding of A2A by which it came.",
    "AuditRowView.taskId": "The id of the task.",
    "AuditRowView.contextId": "The id of the context.",
    "AuditRowView.outcome": "`ok`, `failed`, `canceled`, `interrupted` or `unstarted`.",
    "AuditRowView.reason": "Why it was refused, for programs.",
    "AuditRowView.ranMs": "How long the turn ran, in milliseconds.",
    "AuditRowView.tookMs": "The time from the message to the end, in milliseconds.",
    "AuditRowView.question": "The text of the message, where the audit keeps questions.",
    "AuditRowView.count": "How many refusals or lost rows the row stands for.",
    "AuditRowView.action": "What was done.",
    "AuditRowView.subject": "To what it was done.",
    "AuditRowView.detail": "The details of the change.",
    "AuditRowView.recoveredFrom": "The chain of the node that ended before it wrote the row.",
    "Verification.isSound": "Whether every row is as it was written, and none is missing.",
    "Verification.rows": "How many rows were read.",
    "Verification.chains": "How many chains there are.",
    "Verification.faults": "Places that are not as they were written.",
    "Verification.moreFaults": "How many further places are not listed.",
    "Verification.newestChain": "The chain that was begun last.",
    "Verification.newestHash": "Its last hash. Keep both elsewhere, to notice if the end of the "
    "audit is taken away.",
    "Verification.verifiedAt": "The time of the verification.",
    "AuditFault.what": "What is wrong there.",
    "AuditFault.chain": "The chain; empty for a fault of the list of chains.",
    "AuditFault.number": "The number of the row; 0 for a fault of the whole chain.",
}
_REPORT_TEXTS: Final = {
    "InboundReport.daily": "The figures of every day of the window, the oldest first.",
    "InboundDay.date": "The day, in UTC.",
}


class AuditApi:
    def __init__(
        self,
        inbound: Inbound,
        find: FindAgent,
        *,
        clock: Clock,
        flush: Callable[[], Awaitable[object]],
    ) -> None:
        """`flush` writes the rows that wait in memory. Raises StoreError."""
        self._inbound = inbound
        self._find = find
        self._clock = clock
        self._flush = flush
        self._verifying = asyncio.Lock()

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/agents/{id}/inbound",
            name="get_inbound",
            summary="Report who has called an agent in the last days, and how that ended.",
            handle=self._report,
            query=InboundQuery,
            result=InboundReport,
            texts=_REPORT_TEXTS,
        )
        yield Route(
            method="GET",
            path="/audit",
            name="list_audit",
            summary="List the rows of the audit, the newest first; for operators.",
            handle=self._list,
            query=AuditQuery,
            result=AuditPage,
            texts=_TEXTS,
        )
        yield Route(
            method="POST",
            path="/audit/verify",
            name="verify_audit",
            summary="Check that no row of the audit was changed, removed or moved; for operators.",
            description="It reads all rows, one verification at a time. An audit of more than "
            f"{MAX_VERIFIED} rows is checked with `trunkline audit verify`.",
            handle=self._verify,
            result=Verification,
            texts=_TEXTS,
        )

    async def _report(self, call: Call) -> InboundReport:
        handle = await self._find(call.path["id"], call.caller)
        if handle is None:
            raise RouteNotFound("There is no such agent")
        if not manages(call.caller, handle.partition("/")[0]):
            raise PermissionDenied("Only those who manage the agent may see who calls it")
        query: InboundQuery = call.query
        return await self._inbound.report(handle, days=query.days)

    async def _list(self, call: Call) -> AuditPage:
        call.require_operator()
        query: AuditQuery = call.query
        since_ms = _since_ms(query.since)
        if not query.page_token:
            # So that a person who has just done something sees it.
            await self._flush()
        found = await AuditPages(self._store).page(
            _filter(query), limit=query.page_size, token=query.page_token, since_ms=since_ms
        )
        read_to_ms = found.read_to_ms
        return AuditPage(
            items=[_view(chain, line) for chain, line in found.rows],
            next_page_token=found.token,
            read_to=None if read_to_ms is None else format_timestamp(read_to_ms),
        )

    async def _verify(self, call: Call) -> Verification:
        call.require_operator()
        if self._verifying.locked():
            raise TooManyRequests(
                "The audit is being verified already; wait for the result", retry_after_s=_AGAIN_S
            )
        async with self._verifying:
            await self._flush()
            heads = await AuditReader(self._store).heads()
            rows = sum(head.last - head.first + 1 for head in heads)
            if rows > MAX_VERIFIED:
                raise UnsupportedOperation(
                    f"The audit has {rows} rows, which are too many to verify in one request. Run "
                    "'trunkline audit verify' on the machine of the gateway"
                )
            found = await verify(_Paced(self._store, self._clock))
        return Verification(
            is_sound=found.is_sound,
            rows=found.rows,
            chains=found.chains,
            faults=[
                AuditFault(what=each.what, chain=each.chain, number=each.number)
                for each in found.faults
            ],
            more_faults=found.more,
            newest_chain=found.newest,
            newest_hash=found.hash,
            verified_at=format_timestamp(self._clock.now_ms()),
        )

    @property
    def _store(self) -> Store:
        if self._inbound.store is None:
            raise Unavailable("The hub is not open yet", retry_after_s=_AGAIN_S)
        return self._inbound.store


class _Paced:
    """The records of a store. Other requests have their turn between two pages of them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def record(self, key: Key) -> Record | None:
        return await self._store.record(key)

    async def records(
        self,
        kind: str,
        *,
        scope: str | None = None,
        after: Key | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[Record]:
        await self._clock.sleep(0)
        return await self._store.records(
            kind, scope=scope, after=after, newest_first=newest_first, limit=limit
        )


def _since_ms(text: str) -> int:
    if not text:
        return 0
    try:
        return parse_timestamp(text)
    except (ValueError, OverflowError):
        raise InvalidParams.at("since", "is not a time such as 2026-01-31T12:00:00Z") from None


def _filter(query: AuditQuery) -> Callable[[Line], bool]:
    words = query.q.casefold()

    def fits(line: Line) -> bool:
        if query.kind is not None and line.kind != query.kind:
            return False
        if query.agent and query.agent != line.agent:
            return False
        if query.who and query.who not in (line.who, line.source):
            return False
        return not words or any(words in text.casefold() for text in _texts_of(line))

    return fits


def _texts_of(line: Line) -> tuple[str, ...]:
    return (
        line.who,
        line.source,
        line.agent,
        line.asked_by,
        line.operation,
        line.outcome,
        line.reason,
        line.action,
        line.subject,
        line.detail,
        line.question,
        line.task_id,
        line.context_id,
        line.token,
        line.id,
        line.tenant,
    )


def _view(chain: str, line: Line) -> AuditRowView:
    return AuditRowView(
        chain=chain,
        number=line.n,
        at=format_timestamp(line.at_ms),
        kind=line.kind,
        hash=line.hash,
        id=line.id,
        who=line.who,
        token=line.token,
        acting_for=line.chain,
        asked_by=line.asked_by,
        tenant=line.tenant,
        source=line.source,
        agent=line.agent,
        operation=line.operation,
        binding=line.binding,
        task_id=line.task_id,
        context_id=line.context_id,
        outcome=line.outcome,
        reason=line.reason,
        ran_ms=line.ran_ms,
        took_ms=line.took_ms,
        question=line.question,
        count=line.count,
        action=line.action,
        subject=line.subject,
        detail=line.detail,
        recovered_from=line.recovered_from,
    )
