"""`RelayApi`: the routes by which operators see the agents and mailboxes of a relay."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Final

from msgspec import Meta, Struct

from trunkline.api.api import Call, Route
from trunkline.relay.attached_agents import AttachedAgent
from trunkline.relay.mailbox.commands import DeadLetterView, MailboxView, MailCommands, NameAgent

MAX_PAGE: Final = 200
_MAX_HANDLE: Final = 130


class RelayQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    page_size: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    # The last name of the page before.
    page_token: Annotated[str, Meta(max_length=_MAX_HANDLE)] = ""


class AttachedPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[AttachedAgent]
    next_page_token: str


class MailboxPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[MailboxView]
    next_page_token: str


class DeadLetterQuery(RelayQuery, frozen=True, kw_only=True, rename="camel"):
    agent: Annotated[str, Meta(max_length=_MAX_HANDLE)] = ""


class DeadLetterPage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[DeadLetterView]
    next_page_token: str


_TEXTS: Final = {
    "AttachedAgent.agent": "The agent, by its tenant and its name there.",
    "AttachedAgent.host": "The principal of the gateway that has attached it. Only the node with "
    "the session knows it.",
    "AttachedAgent.session": "The beginning of the id of the session, which tells sessions apart.",
    "AttachedAgent.epoch": "Rises with every session that attaches the agent.",
    "AttachedAgent.state": "`attached`, `reconnecting` while the session waits for its host, or "
    "`at another node`.",
    "AttachedAgent.requests": "Requests to it that are under way at this node.",
    "MailboxView.agent": "The agent, by its tenant and its name there.",
    "MailboxView.waiting": "How many messages wait for the agent.",
    "MailboxView.bytes": "The size of these messages.",
    "MailboxView.oldestAt": "The time of the oldest of them; null where none waits.",
    "MailboxView.dead": "How many messages were given up.",
    "DeadLetterQuery.agent": "The agent whose dead letters are wanted.",
    "DeadLetterView.task": "The id of the task.",
    "DeadLetterView.context": "The id of its context.",
    "DeadLetterView.sender": "The principal that has sent the message.",
    "DeadLetterView.sentAt": "The time at which it was sent.",
    "DeadLetterView.deadAt": "The time at which it was given up.",
    "DeadLetterView.reason": "Why it was given up.",
    "DeadLetterView.attempts": "How often it was sent to the gateway of the agent.",
}


class RelayApi:
    def __init__(
        self,
        attached: Callable[[], Awaitable[Sequence[AttachedAgent]]],
        mail: MailCommands,
    ) -> None:
        """`attached` gives the agents in the order of their names. Raises Unavailable."""
        self._attached = attached
        self._mail = mail

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/relay/agents",
            name="list_relay_agents",
            summary="List the agents that are attached to the relay; for operators.",
            handle=self._agents,
            query=RelayQuery,
            result=AttachedPage,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/relay/mailboxes",
            name="list_relay_mailboxes",
            summary="List the mailboxes of the relay that hold messages; for operators.",
            handle=self._mailboxes,
            query=RelayQuery,
            result=MailboxPage,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/relay/dead-letters",
            name="list_relay_dead_letters",
            summary="List the messages for an agent that were given up; for operators.",
            description="The oldest first. `trunkline relay mail` retries or discards them.",
            handle=self._dead,
            query=DeadLetterQuery,
            result=DeadLetterPage,
            texts=_TEXTS,
        )

    async def _agents(self, call: Call) -> AttachedPage:
        call.require_operator()
        query: RelayQuery = call.query
        found = (each for each in await self._attached() if each.agent > query.page_token)
        items = [*islice(found, query.page_size + 1)]
        token = items[query.page_size - 1].agent if len(items) > query.page_size else ""
        return AttachedPage(items=items[: query.page_size], next_page_token=token)

    async def _mailboxes(self, call: Call) -> MailboxPage:
        call.require_operator()
        query: RelayQuery = call.query
        boxes = sorted((await self._mail.list())["items"], key=lambda box: box.agent)
        found = (each for each in boxes if each.agent > query.page_token)
        items = [*islice(found, query.page_size + 1)]
        token = items[query.page_size - 1].agent if len(items) > query.page_size else ""
        return MailboxPage(items=items[: query.page_size], next_page_token=token)

    async def _dead(self, call: Call) -> DeadLetterPage:
        call.require_operator()
        query: DeadLetterQuery = call.query
        letters: list[DeadLetterView] = []
        # Only mailboxes that hold something are opened, because an open one stays in memory.
        if any(box.agent == query.agent for box in (await self._mail.list())["items"]):
            letters = (await self._mail.dead(NameAgent(agent=query.agent)))["items"]
        tasks = [each.task for each in letters]
        begin = tasks.index(query.page_token) + 1 if query.page_token in tasks else 0
        end = begin + query.page_size
        token = letters[end - 1].task if end < len(letters) else ""
        return DeadLetterPage(items=letters[begin:end], next_page_token=token)
