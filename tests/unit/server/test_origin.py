import pytest
from tests.unit.server.requests import request

from trunkline.model.errors import PermissionDenied
from trunkline.server.http import Header
from trunkline.server.origin import check_origin

HOST: Header = (b"host", b"localhost:8642")


@pytest.mark.parametrize(
    "origin",
    [
        b"https://evil.example",
        b"null",
        b"",
        b"http://localhost",
        b"http://localhost:3000",
        b"http://localhost.evil.example:8642",
        b"http://localhost:8642@evil.example",
        b"http://evil.example/http://localhost:8642",
        b"localhost:8642",
        b"chrome-extension://localhost:8642",
        b"file://",
    ],
)
def test_a_page_of_another_origin_may_not_post(origin: bytes) -> None:
    with pytest.raises(PermissionDenied, match=r"Origin header.*API key"):
        check_origin(request(headers=[HOST, (b"origin", origin)]))


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (b"http://localhost:8642", b"localhost:8642"),
        (b"HTTP://LocalHost:8642", b"localhost:8642"),
        (b"http://127.0.0.1:8642", b"127.0.0.1:8642"),
        (b"http://[::1]:8642", b"[::1]:8642"),
        (b"http://localhost", b"localhost"),
        (b"http://localhost", b"localhost:80"),
        (b"https://agents.example", b"agents.example"),
        (b"https://agents.example", b"agents.example:443"),
        # A proxy that names the gateway by its inner address.
        (b"https://agents.example", b"127.0.0.1:8642"),
    ],
)
def test_a_page_of_the_gateway_may_post(origin: bytes, host: bytes) -> None:
    check_origin(request(headers=[(b"host", host), (b"origin", origin)]), {"agents.example"})


def test_a_port_that_goes_without_saying_is_that_of_the_scheme() -> None:
    with pytest.raises(PermissionDenied):
        check_origin(
            request(headers=[(b"host", b"localhost:80"), (b"origin", b"https://localhost")])
        )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_request_from_another_site_is_refused_without_an_origin(method: str) -> None:
    headers = [HOST, (b"sec-fetch-site", b"cross-site")]
    with pytest.raises(PermissionDenied, match="Sec-Fetch-Site: cross-site"):
        check_origin(request(method=method, headers=headers))


@pytest.mark.parametrize("site", [b"same-origin", b"none", b"same-site"])
def test_other_sites_of_a_fetch_are_fine(site: bytes) -> None:
    check_origin(request(headers=[HOST, (b"sec-fetch-site", site)]))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_changes_nothing_is_looked_at_only_when_asked(method: str) -> None:
    asked = request(method=method, headers=[HOST, (b"origin", b"https://evil.example")])
    check_origin(asked)
    with pytest.raises(PermissionDenied):
        check_origin(asked, reads=True)


def test_a_program_that_is_no_browser_says_nothing_and_passes() -> None:
    check_origin(request(headers=[HOST]))
