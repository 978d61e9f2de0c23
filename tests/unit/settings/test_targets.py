from typing import Any

import pytest
from tests.unit.settings.documents import made, only, problems

from trunkline.config.called_agents import ApiKeyCredentials, BearerCredentials, OAuth2Credentials
from trunkline.config.secret import Secret
from trunkline.remote.target import CARD_PATH, TRANSPORTS
from trunkline.settings import effective, from_document
from trunkline.settings.show import to_toml
from trunkline.settings.targets import RemoteSettings

TOKEN = "a-token-that-nobody-sees"
OAUTH = {
    "kind": "oauth2",
    "token_url": "https://login.example.com/token",
    "client_id": "us",
    "client_secret": TOKEN,
}


def target(**keys: Any) -> dict[str, Any]:
    return {"support": {"base_url": "https://support.example.com", **keys}}


def test_a_url_is_all_that_a_target_needs() -> None:
    found = made(targets=target()).targets["support"]
    assert found.base_url == "https://support.example.com"
    assert (found.default, found.credentials, found.headers) == (False, None, {})


def test_the_defaults_are_those_of_the_client() -> None:
    assert RemoteSettings().card_path == CARD_PATH
    assert RemoteSettings().transports == TRANSPORTS


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kind": "bearer", "token": TOKEN}, BearerCredentials(token=Secret(TOKEN))),
        ({"kind": "api-key", "key": TOKEN}, ApiKeyCredentials(key=Secret(TOKEN))),
        (
            OAUTH,
            OAuth2Credentials(
                token_url="https://login.example.com/token",
                client_id="us",
                client_secret=Secret(TOKEN),
            ),
        ),
    ],
)
def test_credentials_are_of_a_kind_and_never_shown(given: Any, expected: object) -> None:
    settings = made(targets=target(credentials=given, headers={"X-Key": TOKEN}))
    assert settings.targets["support"].credentials == expected
    assert settings.targets["support"].headers == {"X-Key": Secret(TOKEN)}
    assert TOKEN not in repr(settings)
    shown = to_toml(effective(settings))
    assert TOKEN not in shown
    assert "[targets.support.credentials]" in shown
    assert 'X-Key = "***"' in shown


def test_secrets_come_out_of_the_environment() -> None:
    document = {"targets": target(credentials={"kind": "bearer", "token": "${TOKEN}"})}
    settings = from_document(document, environment={"TOKEN": TOKEN})
    assert settings.targets["support"].credentials == BearerCredentials(token=Secret(TOKEN))


def test_a_file_with_targets_needs_no_agent() -> None:
    assert made(agents={}, targets=target()).agents == {}
    assert made(agents={}, remote={"allow_target_url": True}).targets == {}
    problem = only(agents={})
    assert "[targets.support]" in problem.remedy


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("support.example.com", "expected an absolute http or https URL"),
        ("ftp://support.example.com", "expected an absolute http or https URL"),
        ("https://me:pw@support.example.com", "expected a URL without user and password"),
        ("https://support.example.com/ä", "expected a URL in ASCII"),
        ("https://support.example.com/{x}", "expected a URL in ASCII"),
        ("", "expected an absolute http or https URL"),
    ],
)
def test_a_base_url_is_one_that_can_be_called(url: str, what: str) -> None:
    problem = only(targets=target(base_url=url))
    assert problem.key == "targets.support.base_url"
    assert problem.what.startswith(what)
    assert problem.remedy == 'Example: base_url = "https://support.example.com".'


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@x.example",
        "https://me:hunter2@x.example:0",
        "https://me:hunter2@x.example/${A:-a}",
    ],
)
def test_the_password_in_a_url_is_not_repeated(url: str) -> None:
    problem = only(targets=target(base_url=url))
    assert problem.value.startswith('"https://***@x.example')
    assert "hunter2" not in str(problem)


def test_a_target_without_a_url_is_told_so() -> None:
    [problem] = [one for one in problems(targets={"support": {}}) if "missing" in one]
    assert problem.startswith("targets.support.base_url: missing. Add it.")


@pytest.mark.parametrize("alias", ["", " x", "a\nb", "https://x", "a" * 101])
def test_an_alias_can_be_typed(alias: str) -> None:
    problem = only(targets={alias: {"base_url": "https://x.example"}})
    assert problem.what == "cannot be an alias"


def test_one_default_at_most() -> None:
    two = {**target(default=True), "b": {"base_url": "https://b.example", "default": True}}
    assert str(only(targets=two)) == (
        'targets.b.default = true: "support" is the default target already. '
        "Keep default = true in one target only."
    )


def test_transports_are_those_that_are_spoken() -> None:
    problem = only(targets=target(transports=["jsonrpc"]))
    assert str(problem) == (
        'targets.support.transports[0] = "jsonrpc": is a binding that we cannot speak. '
        'Did you mean "JSONRPC"? Known: "JSONRPC", "HTTP+JSON".'
    )
    assert only(remote={"transports": ["GRPC"]}).key == "remote.transports[0]"
    made(targets=target(transports=["GRPC"]), remote={"enforce_transports": False})


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        ({"a b": "x"}, "cannot be the name of a header"),
        ({"Content-Type": "x"}, "is a header that the call itself decides"),
        ({"X-A": "x\r\nY: z"}, "holds characters that cannot be sent in a header"),
        ({"X-A": 1}, "expected a text"),
        ("X-A", "expected a table of texts"),
    ],
)
def test_headers_can_be_sent(headers: Any, what: str) -> None:
    problem = only(targets=target(headers=headers))
    assert problem.what == what
    assert "x\r" not in str(problem)
    assert only(remote={"headers": headers}).what == what


@pytest.mark.parametrize(
    ("credentials", "key", "what"),
    [
        ({"kind": "bearer", "token": ""}, "token", "is empty"),
        ({"kind": "bearer", "token": "x\n"}, "token", "holds characters"),
        ({"kind": "api-key", "key": "k" * 9, "header": "a b"}, "header", "cannot be the name"),
        ({**OAUTH, "token_url": "login"}, "token_url", "expected an absolute"),
        ({**OAUTH, "client_secret": " "}, "client_secret", "is empty"),
        ({"kind": "basic"}, "kind", 'expected one of "bearer", "api-key", "oauth2"'),
        ("token", "", "expected a table"),
    ],
)
def test_credentials_can_be_sent(credentials: Any, key: str, what: str) -> None:
    problem = only(targets=target(credentials=credentials))
    assert problem.path == ("targets", "support", "credentials", *([key] if key else []))
    assert problem.what.startswith(what)


def test_a_header_does_not_speak_against_the_credentials() -> None:
    bearer = {"kind": "bearer", "token": TOKEN}
    problem = only(targets=target(headers={"authorization": "x"}, credentials=bearer))
    assert problem.what == "is set by the credentials already"
    api_key = {"kind": "api-key", "key": TOKEN}
    made(targets=target(headers={"authorization": "x"}, credentials=api_key))
    assert only(targets=target(headers={"x-api-key": "x"}, credentials=api_key)).path[-1] == (
        "x-api-key"
    )


def test_a_card_path_is_a_path() -> None:
    assert only(targets=target(card_path="https://x/card.json")).what == "expected a path"
    assert only(remote={"card_path": "/a b"}).what == "expected a path"


EC_KEY = (
    '{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
    '"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}'
)


def test_keys_for_the_signature_of_a_card() -> None:
    found = made(targets=target(card_keys=[EC_KEY], require_signature=True)).targets["support"]
    assert (found.card_keys, found.require_signature) == ((EC_KEY,), True)


def test_a_key_that_is_none_is_named_by_its_place() -> None:
    problem = only(targets=target(card_keys=[EC_KEY, "nonsense"]))
    assert problem.path == ("targets", "support", "card_keys", 1)
    assert "neither a public key in PEM nor a JWK" in problem.what


def test_a_signature_that_nothing_can_check() -> None:
    problem = only(targets=target(require_signature=True))
    assert problem.path == ("targets", "support", "require_signature")
    assert "card_keys" in problem.remedy


def test_mcp_needs_a_tool_to_serve() -> None:
    assert str(only(remote={"enabled": False, "mcp": True})) == (
        "remote.mcp = true: there is no tool to serve: enabled is false. "
        "Set enabled = true, or leave mcp out."
    )
    assert made(agents={}, remote={"mcp": True}).remote.mcp


@pytest.mark.parametrize(
    ("origin", "what"),
    [
        ("rpc.example.com", "absolute http or https URL"),
        ("ftp://rpc.example.com", "absolute http or https URL"),
        ("https://me:pw@rpc.example.com", "without user and password"),
        ("https://rpc.example.com/path", "scheme, host and port alone"),
        ("https://rpc.example.com/?a=b", "scheme, host and port alone"),
        ("https://*.example.com/*", "scheme, host and port alone"),
    ],
)
def test_a_trusted_origin_is_an_origin(origin: str, what: str) -> None:
    problem = only(targets=target(trusted_origins=["https://ok.example:8443", origin]))
    assert problem.key == "targets.support.trusted_origins[1]"
    assert what in problem.what
    assert problem.remedy == 'Example: trusted_origins = ["https://rpc.example.com"].'
