"""`Visits`: agents elsewhere that an operator calls from the page, published for a while.

A visit is an agent `visit/NAME` with a backend of kind `a2a`. Callers reach it by the operations of
A2A alone, as they reach any agent, so the gateway hands nothing else on. Visits are in memory: they
end with the gateway.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.config.urls import url_fault
from trunkline.model.card import AgentCard
from trunkline.model.errors import (
    ConfigError,
    Conflict,
    InvalidParams,
    PermissionDenied,
    RouteNotFound,
    Unavailable,
)
from trunkline.ports.clock import Clock
from trunkline.ports.directory import Directory
from trunkline.remote import Limits, RemoteError, Target, connect
from trunkline.remote.errors import AddressRefused, InvalidTarget, PeerTimeout, PeerUnreachable

_log = logging.getLogger("trunkline.visits")

Allowed: TypeAlias = Literal["never", "public", "any"]
OWNER: Final = "visit"
MAX_VISITS: Final = 20
CARD_S: Final = 15.0
_RETRY_AFTER_S: Final = 5
_MAX_NAME: Final = 100
_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9]+")


class Visit(Struct, frozen=True, kw_only=True):
    handle: str
    url: str
    began_ms: int

    @property
    def slug(self) -> str:
        return self.handle.partition("/")[2]


class VisitStanding:
    """It implements `ports.directory.Standing`. A visit may carry credentials of the operator, so
    callers without a grant do not reach it, and no list for everyone names it."""

    is_private = True
    is_open = False
    is_listed = False
    is_fresh = True

    async def renew(self) -> None:
        return None

    async def card_block(self) -> tuple[str, bytes] | None:
        return None


class Visits:
    def __init__(
        self, directory: Directory, *, allowed: Callable[[], Allowed], clock: Clock
    ) -> None:
        """`allowed` is the setting `console.visits` in force."""
        self._directory = directory
        self._allowed = allowed
        self._clock = clock
        self._visits: dict[str, Visit] = {}
        # One visit begins or ends at a time.
        self._changing = asyncio.Lock()

    def list(self) -> list[Visit]:
        return [*self._visits.values()]

    async def begin(self, url: str, headers: Mapping[str, str]) -> Visit:
        """Publish the agent at a URL; one that is visited already gets the new headers. Raises
        PermissionDenied, InvalidParams, Conflict or Unavailable."""
        allowed = self._allowed()
        if allowed == "never":
            raise PermissionDenied(
                'The configuration of the gateway allows no visits: set visits = "public" or "any" '
                "in [console]"
            )
        if fault := url_fault(url):
            raise InvalidParams.at("url", fault)
        is_public = allowed == "public"
        # Before the others have to wait: an agent elsewhere may be slow.
        card = await self._card(url, headers, is_public=is_public)
        async with self._changing:
            handle = f"{OWNER}/{slug_of(card.name, url)}"
            known = handle in self._visits
            if not known and len(self._visits) >= MAX_VISITS:
                raise Conflict(f"There are {MAX_VISITS} visits already; end one of them first")
            try:
                await self._directory.publish(
                    handle,
                    _table(card, url, headers, is_public=is_public),
                    replace=known,
                    standing=VisitStanding(),
                )
            except ConfigError as error:
                raise InvalidParams.at("url", _without(headers, error.message)) from None
            visit = Visit(handle=handle, url=url, began_ms=self._clock.now_ms())
            self._visits[handle] = visit
        _log.info("a visit began", extra={"agent": handle, "url": url})
        return visit

    async def end(self, slug: str) -> None:
        """Raises RouteNotFound. Running turns are stopped."""
        async with self._changing:
            visit = self._visits.pop(f"{OWNER}/{slug}", None)
            if visit is None:
                raise RouteNotFound("There is no such visit")
            await self._directory.withdraw(visit.handle, grace_s=0.0)
        _log.info("a visit ended", extra={"agent": visit.handle})

    async def _card(self, url: str, headers: Mapping[str, str], *, is_public: bool) -> AgentCard:
        """Raises InvalidParams or Unavailable."""
        try:
            target = Target(url=url, headers=dict(headers), public_only=is_public)
            # A person waits, and can try again.
            limits = Limits(attempts=1, card_s=CARD_S)
            async with connect(target, limits=limits, clock=self._clock) as agent:
                return await agent.card()
        except AddressRefused:
            raise InvalidParams.at(
                "url",
                'leads to an address that is not public; visits = "any" in [console] allows it'
                if is_public
                else "leads to an address that must not be called",
            ) from None
        except InvalidTarget as error:
            raise InvalidParams.at("url", _without(headers, error.message)) from None
        except (PeerUnreachable, PeerTimeout) as error:
            raise Unavailable(
                f"The agent cannot be reached: {error.reason}", retry_after_s=_RETRY_AFTER_S
            ) from None
        except RemoteError as error:
            # The message of the error may quote the answer of the other server.
            raise InvalidParams.at("url", f"gives no card of A2A: {error.reason}") from None


def slug_of(name: str, url: str) -> str:
    """The name of a visit. The end is made of the URL, so that tasks of one agent never continue at
    another one of its name."""
    begin = _NOT_IN_SLUGS.sub("-", name.lower()).strip("-")[:32].strip("-") or "agent"
    return f"{begin}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def _table(
    card: AgentCard, url: str, headers: Mapping[str, str], *, is_public: bool
) -> dict[str, Any]:
    """The table of the agent in a configuration."""
    name = "".join(each for each in card.name if each.isprintable()).strip()[:_MAX_NAME]
    return {
        "name": name or urlsplit(url).hostname or "agent",
        "backend": {
            "kind": "a2a",
            "url": url,
            "headers": dict(headers),
            "public_only": is_public,
        },
    }


def _without(headers: Mapping[str, str], text: str) -> str:
    for value in sorted(headers.values(), key=len, reverse=True):
        if value:
            text = text.replace(value, "***")
    return text
