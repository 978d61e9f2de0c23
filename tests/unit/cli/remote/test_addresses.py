import pytest

from trunkline.cli.remote.addresses import may_be_interface, url_of


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        (":8642", "http://127.0.0.1:8642"),
        ("localhost:8642", "http://localhost:8642"),
        ("127.0.0.1:8642/a2a/jsonrpc", "http://127.0.0.1:8642/a2a/jsonrpc"),
        ("[::1]:8642", "http://[::1]:8642"),
        # A token may go along, so plain HTTP is not guessed for another machine.
        ("agents.example:443", "https://agents.example:443"),
        ("10.0.0.7:8642", "https://10.0.0.7:8642"),
    ],
)
def test_a_host_and_a_port_are_an_address(typed: str, url: str) -> None:
    assert url_of(typed) == url


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "support",
        "localhost",
        "agent.example",
        "http://h:1",
        "me:secret@h:1",
        "a b:1",
        "h:x",
        ":",
    ],
)
def test_other_words_are_none(typed: str) -> None:
    assert url_of(typed) == ""


def test_which_urls_may_be_those_of_an_interface() -> None:
    assert may_be_interface("http://h/a2a/jsonrpc")
    assert not may_be_interface("http://h/")
    assert not may_be_interface("http://h/.well-known/agent-card.json")
