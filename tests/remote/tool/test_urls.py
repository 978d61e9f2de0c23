"""Base URLs: the one spelling of each, and those where no agent can be."""

import pytest

from trunkline.remote.tool.ajv import is_uri
from trunkline.remote.tool.config import normalized


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ("https://support.example", "https://support.example/"),
        ("HTTPS://Support.Example:443/", "https://support.example/"),
        ("http://x:80", "http://x/"),
        ("http://x:8080/a/b/", "http://x:8080/a/b"),
        ("https://x/A?q=1#part", "https://x/A?q=1"),
        ("http://[::1]:9/", "http://[::1]:9/"),
    ],
)
def test_one_spelling(given: str, spelled: str) -> None:
    assert normalized(given) == spelled
    assert normalized(spelled) == spelled


@pytest.mark.parametrize(
    "given",
    [
        "",
        "x",
        "ftp://x",
        "https://",
        "https://a b",
        "https://u@x",
        "https://u:p@x",
        "http://x:99999",
    ],
)
def test_nobody_can_be_there(given: str) -> None:
    assert normalized(given) is None


@pytest.mark.parametrize(
    ("given", "fits"),
    [("urn:x:y", True), ("https://x/%20", True), ("https://x/%2", False), ("//x", False)],
)
def test_uris(given: str, fits: bool) -> None:
    assert is_uri(given) is fits
