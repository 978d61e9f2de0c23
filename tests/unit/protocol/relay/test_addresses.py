import pytest

from trunkline.protocol.relay.addresses import Address, address_of, path_of


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/t/acme/a2a/helper", Address("acme/helper", "")),
        ("/t/acme/a2a/helper/", Address("acme/helper", "/")),
        ("/t/acme/a2a/helper/message:send", Address("acme/helper", "/message:send")),
        ("/t/acme/a2a/helper/v1/tasks/a/b", Address("acme/helper", "/v1/tasks/a/b")),
        ("/t/acme/a2a/helper//x", Address("acme/helper", "//x")),
        ("/t/acme/a2a", None),
        ("/t/acme/a2a/", None),
        ("/t//a2a/helper", None),
        ("/t/acme/b2b/helper", None),
        ("/x/acme/a2a/helper", None),
        ("t/acme/a2a/helper", None),
        ("/t", None),
        ("", None),
    ],
)
def test_the_agent_and_the_rest_of_a_path(path: str, address: Address | None) -> None:
    assert address_of(path) == address


def test_only_the_agent_itself_is_at_json_rpc() -> None:
    assert [Address("a/b", below).is_jsonrpc for below in ("", "/", "/x")] == [True, True, False]


def test_the_path_of_an_agent() -> None:
    assert path_of("acme/helper") == "/t/acme/a2a/helper"
    assert address_of(path_of("acme/helper")) == Address("acme/helper", "")
