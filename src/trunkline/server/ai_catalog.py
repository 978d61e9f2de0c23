"""`AiCatalog`: serves the list of the agents that everyone may know, as public as their cards."""

from collections.abc import Callable, Sequence

from trunkline.model.card import AgentCard
from trunkline.model.errors import TrunklineError, WrongHttpMethod
from trunkline.ports.directory import Listing, Standing
from trunkline.protocol import ai_catalog, rest
from trunkline.protocol.cards import etag
from trunkline.protocol.versions import Version
from trunkline.server.a2a import error_headers, for_client
from trunkline.server.asgi import AsgiRequest, AsgiResponse, Receive, Scope, Send
from trunkline.server.http import Header, Request, Response
from trunkline.server.standing import NotServed, renew


class AiCatalog:
    """An ASGI application. It names every agent of the configuration, and those agents of a
    registry that are listed."""

    def __init__(self, listings: Callable[[], Sequence[Listing]], base_url: Callable[[], str]):
        self._listings = listings
        self._base_url = base_url
        # By handle: what the entry was made of, and its JSON.
        self._entries: dict[str, tuple[AgentCard, str, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = AsgiRequest.of(scope, receive)
        await self._serve(request, AsgiResponse(send))

    async def _serve(self, request: Request, response: Response) -> None:
        try:
            if request.method not in ("GET", "HEAD"):
                raise WrongHttpMethod("The catalog is read with GET", allow="GET, HEAD")
            listed = await self._listed()
        except TrunklineError as error:
            shown = for_client(error)
            await response.answer(*rest.error(shown, Version.V1_0), headers=error_headers(shown))
            return
        body = ai_catalog.catalog(self._base_url(), self._encoded(listed))
        tag = etag(body)
        # A cache may keep it, and asks before each use, so that an agent that was withdrawn is
        # gone at the next request.
        headers: list[Header] = [(b"etag", tag.encode()), (b"cache-control", b"no-cache")]
        known = request.header_list(b"if-none-match")
        if tag in (each.removeprefix("W/") for each in known) or known == ["*"]:
            await response.begin(304, headers)
            await response.end()
            return
        kind = ai_catalog.MEDIA_TYPE.encode()
        await response.answer(200, body, content_type=kind, headers=headers)

    async def _listed(self) -> list[Listing]:
        """Raises StoreError."""
        return [
            listing
            for listing in self._listings()
            if listing.standing is None or await _is_listed(listing.standing)
        ]

    def _encoded(self, listed: Sequence[Listing]) -> list[bytes]:
        before, self._entries = self._entries, {}
        for each in listed:
            made = before.get(each.handle)
            if made is None or made[0] is not each.card or made[1] != each.card_url:
                entry = ai_catalog.entry(each.handle, each.card_url, each.card)
                made = (each.card, each.card_url, entry)
            self._entries[each.handle] = made
        return [entry for _, _, entry in self._entries.values()]


async def _is_listed(standing: Standing) -> bool:
    """Raises StoreError."""
    # The store is asked about those agents alone that memory lists.
    if not standing.is_listed:
        return False
    try:
        await renew(standing)
    except NotServed:
        return False
    return standing.is_listed
