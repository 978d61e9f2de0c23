import pytest

from trunkline.remote import InvalidTarget, Target

CARD = ".well-known/agent-card.json"


@pytest.mark.parametrize(
    ("url", "card_url"),
    [
        ("https://a.test", f"https://a.test/{CARD}"),
        ("https://a.test/one/", f"https://a.test/one/{CARD}"),
        ("https://a.test/one?key=1", f"https://a.test/one/{CARD}?key=1"),
        ("https://a.test?key=1/2", f"https://a.test/{CARD}?key=1/2"),
        ("https://a.test/one.json?key=1", "https://a.test/one.json?key=1"),
    ],
)
def test_the_card_is_below_the_url(url: str, card_url: str) -> None:
    assert Target(url=url).card_url == card_url


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("ftp://a.test", '"ftp://a.test" is not an http or https url of an agent'),
        ("https://[a.test", "is not an http or https url of an agent"),
        ("https://a.test:99999", '"https://a.test:99999" has a port that is not from 0 to 65535'),
        ("https://a.test:http", "has a port that is not from 0 to 65535"),
        ("https://me:hunter2@a.test:x", '"https://***@a.test:x" has a port'),
        ("https://me:hunter2@a.test", "holds a password; use credentials instead"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, what: str) -> None:
    with pytest.raises(InvalidTarget) as refused:
        Target(url=url).check()
    assert what in refused.value.message
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("origin", ["rpc.test", "https://u:p@rpc.test", "https://rpc.test/path"])
def test_a_trusted_origin_is_scheme_host_and_port(origin: str) -> None:
    Target(url="https://a.test", trusted_origins=("https://rpc.test:8443", "http://[::1]/")).check()
    with pytest.raises(InvalidTarget):
        Target(url="https://a.test", trusted_origins=(origin,)).check()
