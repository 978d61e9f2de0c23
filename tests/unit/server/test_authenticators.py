"""Several authenticators, and those that are slow or fail."""

import asyncio
import logging

import pytest
from tests.unit.server.requests import request

from trunkline.model.errors import PermissionDenied, Unauthenticated, Unavailable
from trunkline.model.principal import ANONYMOUS, EVERYTHING, Grant, Principal
from trunkline.ports.authenticator import Headers
from trunkline.server import access as access_module
from trunkline.server.access import Access
from trunkline.server.api_keys import ApiKeys
from trunkline.server.asgi import AsgiRequest
from trunkline.testing import settle

SECRET = "a-token-that-nobody-may-see"
CAROL = Principal(id="tokens:carol", grants=EVERYTHING, token="tk_12")
DAVE = Principal(id="jwt:dave", grants=(Grant("acme/*"),))


class Tokens:
    """Knows one token; after it was identified once, from memory."""

    def __init__(self, token: str, principal: Principal) -> None:
        self.token = token
        self.principal = principal
        self.is_cached = False
        self.asked = 0
        # Raised by `identify`.
        self.error: Exception | None = None
        self.is_open = asyncio.Event()
        self.is_open.set()

    def _holds(self, headers: Headers) -> bool:
        return headers.get(b"authorization") == f"Bearer {self.token}".encode()

    def known(self, headers: Headers) -> Principal | None:
        return self.principal if self.is_cached and self._holds(headers) else None

    async def identify(self, headers: Headers) -> Principal | None:
        self.asked += 1
        await self.is_open.wait()
        if self.error is not None:
            raise self.error
        if not self._holds(headers):
            return None
        self.is_cached = True
        return self.principal


def asked_with(token: str) -> AsgiRequest:
    return request(headers=[(b"authorization", b"Bearer " + token.encode())])


def access(*more: Tokens, allows_anonymous: bool = False, identify_s: float = 10) -> Access:
    return Access(
        keys=ApiKeys({}), more=more, allows_anonymous=allows_anonymous, identify_s=identify_s
    )


async def test_the_first_authenticator_that_knows_a_credential_decides() -> None:
    first, second = Tokens("one", CAROL), Tokens("two", DAVE)
    both = access(first, second)
    assert await both.identify(asked_with("two")) == DAVE
    assert await both.identify(asked_with("one")) == CAROL
    assert (first.asked, second.asked) == (2, 1)
    with pytest.raises(Unauthenticated, match="not known"):
        await both.identify(asked_with("three"))


async def test_a_credential_in_memory_is_not_looked_up_again() -> None:
    tokens = Tokens("one", CAROL)
    only = access(tokens)
    assert only.known is not None
    assert only.known(asked_with("one").headers) is None
    assert await only.identify(asked_with("one")) == CAROL
    assert only.known(asked_with("one").headers) == CAROL
    assert tokens.asked == 1


async def test_a_credential_of_nobody_is_not_anonymous() -> None:
    tokens = Tokens("one", CAROL)
    own = access(tokens, allows_anonymous=True)
    with pytest.raises(Unauthenticated):
        await own.identify(asked_with("wrong"))
    assert await own.identify(request(headers=[(b"host", b"localhost")])) == ANONYMOUS


async def test_an_expired_credential_is_refused_with_the_reason_of_its_authenticator() -> None:
    tokens = Tokens("one", CAROL)
    tokens.error = Unauthenticated("The token has expired")
    with pytest.raises(Unauthenticated, match="has expired"):
        await access(tokens, Tokens("two", DAVE)).identify(asked_with("one"))


async def test_an_authenticator_that_raises_is_not_a_wrong_credential(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken, other = Tokens(SECRET, CAROL), Tokens("two", DAVE)
    broken.error = ValueError(f"no key for {SECRET}")
    both = access(broken, other, allows_anonymous=True)
    with caplog.at_level(logging.ERROR), pytest.raises(Unavailable) as refused:
        await both.identify(asked_with(SECRET))
    assert refused.value.retry_after_s > 0
    assert SECRET not in refused.value.message
    assert SECRET not in caplog.text
    (record,) = caplog.records
    assert SECRET not in str(record.__dict__)
    assert (record.authenticator, record.error) == ("Tokens", "ValueError")  # type: ignore[attr-defined]
    # It harms nobody whom another authenticator knows.
    assert await both.identify(asked_with("two")) == DAVE


async def test_an_error_in_memory_leads_to_the_slow_way(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Tokens):
        def known(self, headers: Headers) -> Principal | None:
            raise KeyError(SECRET)

    both = access(Broken(SECRET, CAROL), Tokens("two", DAVE))
    assert both.known is not None
    assert both.known(asked_with(SECRET).headers) is None
    assert await both.identify(asked_with(SECRET)) == CAROL
    assert SECRET not in caplog.text


async def test_a_slow_authenticator_has_a_limited_time() -> None:
    slow = Tokens("one", CAROL)
    slow.is_open.clear()
    with pytest.raises(Unavailable):
        await access(slow, identify_s=0).identify(asked_with("one"))


async def test_a_slow_authenticator_delays_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "MAX_WAITING", 3)
    slow, other = Tokens("one", CAROL), Tokens("two", DAVE)
    slow.is_open.clear()
    both = access(slow, other)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(both.identify(asked_with("one"))) for _ in range(3)]
        await settle()
        # No more than three wait for it; others are refused at once, or served by the next.
        with pytest.raises(Unavailable):
            await both.identify(asked_with("one"))
        assert await both.identify(asked_with("two")) == DAVE
        assert slow.asked == 3
        slow.is_open.set()
    assert [task.result() for task in waiting] == [CAROL] * 3
    assert await both.identify(asked_with("one")) == CAROL


async def test_a_limited_credential_sees_no_figures() -> None:
    both = access(Tokens("one", CAROL), Tokens("two", DAVE))
    assert await both.identify_unrestricted(asked_with("one")) == CAROL
    with pytest.raises(PermissionDenied, match="limited to certain agents"):
        await both.identify_unrestricted(asked_with("two"))


class Cookies(Tokens):
    def _holds(self, headers: Headers) -> bool:
        return headers.get(b"cookie") == f"session={self.token}".encode()


@pytest.mark.parametrize("is_cached", [False, True])
async def test_a_cookie_counts_only_for_pages_of_the_gateway(is_cached: bool) -> None:
    """A browser adds cookies to requests that any page makes it send."""
    cookies = Cookies("one", CAROL)
    cookies.is_cached = is_cached
    own = access(cookies, allows_anonymous=True)
    assert own.known is not None
    lines = [(b"host", b"localhost:8642"), (b"cookie", b"session=one")]
    evil = request(headers=[*lines, (b"origin", b"https://evil.example")])
    assert own.known(evil.headers) is None
    with pytest.raises(PermissionDenied, match="page of another site"):
        await own.identify(evil)
    page = request(headers=[*lines, (b"origin", b"http://localhost:8642")])
    assert own.known(page.headers) is None
    assert await own.identify(page) == CAROL
