"""`SessionsApi`: the routes of sessions, below `/api/v1/sessions`."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from trunkline.api.api import Call, Route
from trunkline.ports.call_views import (
    ListsSessions,
    SessionFilter,
    SessionName,
    SessionView,
)

MAX_PAGE: Final = 200
MAX_MESSAGES: Final = 1000


class SessionQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    agent: Annotated[str, Meta(max_length=128)] = ""
    principal: Annotated[str, Meta(max_length=200)] = ""
    tenant: Annotated[str, Meta(max_length=200)] = ""
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    page_token: Annotated[str, Meta(max_length=64)] = ""


class SessionPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[SessionView]
    # Empty on the last page.
    next_page_token: str


class NamedSession(Struct, frozen=True, kw_only=True, rename="camel"):
    agent: Annotated[str, Meta(max_length=128)] = ""
    principal: Annotated[str, Meta(max_length=200)] = ""
    tenant: Annotated[str, Meta(max_length=200)] = ""


class TranscriptQuery(NamedSession, frozen=True, kw_only=True, rename="camel"):
    limit: Annotated[int, Meta(ge=1, le=MAX_MESSAGES)] = 100


class Transcript(Struct, frozen=True, kw_only=True, rename="camel"):
    # Messages of A2A 1.0, the oldest first.
    messages: list[dict[str, Any]]


class EndedSession(Struct, frozen=True, kw_only=True, rename="camel"):
    discarded_calls: int


class SessionsApi:
    def __init__(self, sessions: ListsSessions) -> None:
        self._sessions = sessions

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/sessions",
            name="list_sessions",
            summary="List sessions with agents: the caller's own, for operators those of all.",
            description="A session is the conversation of a caller with an agent, as far as it was "
            "not ended. The one that changed last comes first.",
            handle=self._list,
            query=SessionQuery,
            result=SessionPage,
        )
        yield Route(
            method="GET",
            path="/sessions/{key}/transcript",
            name="get_transcript",
            summary="Get the last messages of a session, the oldest first.",
            description="With the answers of agents that the agent of the session has asked.",
            handle=self._transcript,
            query=TranscriptQuery,
            result=Transcript,
            errors=(409,),
        )
        yield Route(
            method="DELETE",
            path="/sessions/{key}",
            name="end_session",
            summary="End a session.",
            description="Its messages and entries belong to no later turn, the answers to its "
            "pending calls are discarded, and programs lose their tools. Its tasks stay.",
            handle=self._end,
            query=NamedSession,
            result=EndedSession,
        )

    async def _list(self, call: Call) -> SessionPage:
        query: SessionQuery = call.query
        wanted = SessionFilter(
            agent=query.agent,
            principal=query.principal,
            tenant=query.tenant,
            after=query.page_token,
            limit=query.page_size,
        )
        items, after = await self._sessions.page(wanted, by=call.caller)
        return SessionPage(items=items, next_page_token=after)

    async def _transcript(self, call: Call) -> Raw:
        query: TranscriptQuery = call.query
        messages = await self._sessions.transcript(
            _name(call, query), limit=query.limit, by=call.caller
        )
        # Their own encoder writes them as A2A has them.
        return Raw(msgspec.json.encode({"messages": messages}))

    async def _end(self, call: Call) -> EndedSession:
        return EndedSession(
            discarded_calls=await self._sessions.end(_name(call, call.query), by=call.caller)
        )


def _name(call: Call, query: NamedSession) -> SessionName:
    return SessionName(
        key=call.path["key"], agent=query.agent, principal=query.principal, tenant=query.tenant
    )
