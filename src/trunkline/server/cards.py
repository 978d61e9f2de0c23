"""`Cards`: agent cards over HTTP, in the form that a client asks for, with RFC 9110 validators."""

from email.utils import formatdate, parsedate_to_datetime

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.errors import TrunklineError, WrongHttpMethod
from trunkline.protocol import cards, rest
from trunkline.protocol.cards import Form
from trunkline.protocol.versions import Version, negotiate
from trunkline.server.a2a import error_headers
from trunkline.server.endpoint import Endpoint
from trunkline.server.http import Header, Request, Response

# Short enough that a changed card is seen within minutes, long enough to matter.
MAX_AGE_S = 300


_CACHED = b"public, max-age=%d" % MAX_AGE_S
# The agents of a registry come and go, and a change holds from the next request on.
_CHECKED = b"private, no-cache"

# Features beyond A2A that a client may rely on; docs/reference/streams.md describes them.
FEATURES = b"event-ids, idempotency-key"


class Cards(Struct, eq=False):
    # The time when the configuration was read. Cards change with it, except for those that follow
    # the card of another agent.
    modified_ms: int

    async def serve(self, endpoint: Endpoint, request: Request, response: Response) -> None:
        try:
            if request.method not in ("GET", "HEAD"):
                raise WrongHttpMethod("The agent card is read with GET", allow="GET, HEAD")
            form = endpoint.dialects.card_form or _form(request)
            body, tag = self._encoded(endpoint, form)
            # A member that the signature does not cover would make it invalid.
            if endpoint.standing is not None and not _is_signed(endpoint, form):
                block = await endpoint.standing.card_block()
                if block is not None:
                    body = cards.with_member(body, *block)
                    tag = cards.etag(body)
        except TrunklineError as error:
            status, body = rest.error(error, Version.V1_0)
            await response.answer(status, body, headers=error_headers(error))
            return
        headers: list[Header] = [
            (b"etag", tag.encode()),
            (b"cache-control", _CHECKED if _is_live(endpoint) else _CACHED),
            # The form of the card depends on this header, so a cache keeps the forms apart.
            (b"vary", b"A2A-Version"),
            (b"trunkline-features", FEATURES),
        ]
        modified_s: int | None = None
        if endpoint.standing is None:
            modified_s = self._modified_s(endpoint)
            headers.append((b"last-modified", formatdate(modified_s, usegmt=True).encode()))
        if is_fresh(request, tag, modified_s):
            await response.begin(304, headers)
            await response.end()
            return
        # The response to HEAD states the length of the body, and the server drops the body itself.
        await response.answer(200, body, headers=headers)

    def _encoded(self, endpoint: Endpoint, form: Form) -> tuple[bytes, str]:
        cached = endpoint.encoded_cards.get(form)
        if cached is None or cached[0] is not endpoint.card:
            card = endpoint.card
            if form == "0.3" and card.signatures:
                # The signatures are those of the card of 1.0 (A2A 1.0, 8.4).
                card = replace(card, signatures=())
            body = cards.encode(card, form, endpoint.shape)
            cached = endpoint.encoded_cards[form] = (endpoint.card, body, cards.etag(body))
        return cached[1:]

    def _modified_s(self, endpoint: Endpoint) -> int:
        return max(self.modified_ms, endpoint.renewed_ms) // 1000


def is_fresh(request: Request, tag: str, modified_s: int | None) -> bool:
    """Whether the client has the card with this tag already. A card with figures of the moment has
    no time of its last change."""
    known = request.header(b"if-none-match")
    if known is not None:
        tags = {item.strip().removeprefix("W/") for item in known.split(",")}
        return "*" in tags or tag in tags
    since = request.header(b"if-modified-since")
    if since is None or modified_s is None:
        return False
    try:
        return modified_s <= parsedate_to_datetime(since).timestamp()
    except ValueError:
        return False


def _is_signed(endpoint: Endpoint, form: Form) -> bool:
    has_own_form = form == "hybrid" and endpoint.shape.unstated is not None
    return bool(endpoint.card.signatures) and form != "0.3" and not has_own_form


def _is_live(endpoint: Endpoint) -> bool:
    """Whether clients ask for the card each time: a registry or the style of the card says so."""
    return endpoint.standing is not None or endpoint.shape.unstated is not None


def _form(request: Request) -> Form:
    stated = negotiate(request.header(b"a2a-version"), request.query_value("A2A-Version"))
    return cards.form_for(stated, request.query_value("format"))
