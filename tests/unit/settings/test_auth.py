from typing import Any

import pytest
from tests.unit.settings.documents import KEY, agent, made, only, problems, refused

from trunkline.config.secret import Secret
from trunkline.model.principal import EVERYTHING, OPERATOR, Grant, Principal
from trunkline.settings.auth import ApiKey

WITH_KEY = {"keys": {"ci": {"key": KEY}}}
LINES = '    [auth.keys.me]\n    key = "${TRUNKLINE_KEY}"'


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.4", "gateway.example", "127.0.0.1.example", "128.0.0.1"]
)
def test_other_addresses_than_loopback_need_a_key(host: str) -> None:
    problem = only(server={"host": host})
    assert problem.key == "server.host"
    assert problem.value == f'"{host}"'
    assert 'host = "127.0.0.1"' in problem.remedy
    assert problem.remedy.endswith(LINES)
    assert made(server={"host": host}, auth=WITH_KEY).is_exposed()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST."])
def test_loopback_needs_no_key(host: str) -> None:
    settings = made(server={"host": host})
    assert settings.allows_anonymous()
    assert settings.auth_summary() == "anonymous callers on loopback"


def test_a_public_url_needs_a_key_too() -> None:
    problem = only(server={"public_url": "https://agents.example/base"})
    assert problem.key == "server.public_url"
    assert problem.remedy.endswith(LINES)
    settings = made(server={"public_url": "https://agents.example/base"}, auth=WITH_KEY)
    assert not settings.allows_anonymous()
    assert settings.auth_summary() == "API keys: ci"
    assert made(server={"public_url": "http://localhost:9000"}).allows_anonymous()


def test_never_and_no_key_lets_nobody_in() -> None:
    problem = only(auth={"anonymous": "never"})
    assert problem.key == "auth.anonymous"
    assert problem.remedy.endswith(LINES)
    assert not made(auth={"anonymous": "never", **WITH_KEY}).allows_anonymous()


def test_always_needs_no_key_behind_a_public_url() -> None:
    settings = made(
        server={"public_url": "https://agents.example/base"}, auth={"anonymous": "always"}
    )
    assert settings.allows_anonymous()
    assert settings.auth_summary() == "anonymous callers on loopback and beyond"


def test_always_is_no_excuse_for_an_open_address() -> None:
    problem = only(server={"host": "0.0.0.0"}, auth={"anonymous": "always"})
    assert problem.key == "server.host"
    assert problem.remedy.endswith(LINES)


def test_always_and_an_open_address_are_refused_with_keys_too() -> None:
    problem = only(server={"host": "0.0.0.0"}, auth={"anonymous": "always", **WITH_KEY})
    assert problem.key == "auth.anonymous"
    assert problem.remedy == 'Listen on loopback with host = "127.0.0.1", or leave anonymous out.'


def test_the_public_url_of_an_agent_needs_a_key_too() -> None:
    exposed = {"acme/echo": agent(public_url="https://agents.example")}
    problem = only(agents=exposed)
    assert problem.key == 'agents."acme/echo".public_url'
    assert problem.remedy.endswith(LINES)
    assert not made(agents=exposed, auth=WITH_KEY).allows_anonymous()
    assert made(agents=exposed, auth={"anonymous": "always"}).allows_anonymous()


def test_with_keys_every_caller_needs_one() -> None:
    settings = made(auth=WITH_KEY)
    assert not settings.allows_anonymous()
    assert settings.auth_summary() == "API keys: ci"
    assert settings.access_warning() == ""


def test_keys_and_loopback_are_both_named() -> None:
    settings = made(auth={"anonymous": "loopback", **WITH_KEY})
    assert settings.allows_anonymous()
    assert settings.auth_summary() == "API keys: ci; anonymous callers on loopback"


@pytest.mark.parametrize("anonymous", ["loopback", "always"])
def test_keys_that_nobody_has_to_send_are_warned_of(anonymous: str) -> None:
    warning = made(auth={"anonymous": anonymous, **WITH_KEY}).access_warning()
    assert warning.startswith(f'auth.anonymous = "{anonymous}": ')
    assert warning.endswith("Remove anonymous to require a key from every caller.")
    assert made(auth={"anonymous": anonymous}).access_warning() == ""


def test_a_misfit_among_the_keys_does_not_count_as_no_key() -> None:
    found = problems(server={"host": "0.0.0.0"}, auth={"keys": {"ci": "text"}})
    assert len(found) == 1
    assert found[0].startswith("auth.keys.ci = ***: expected a table.")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"ci": {"key": "short"}}, "auth.keys.ci.key = ***: shorter than 16 characters."),
        ({"ci": {"key": f"{KEY} {KEY}"}}, "auth.keys.ci.key = ***: holds characters that cannot"),
        ({"ci": {"key": f"{KEY}é"}}, "auth.keys.ci.key = ***: holds characters that cannot"),
        ({"ci": {"sha256": "abc"}}, "auth.keys.ci.sha256 = ***: expected 64 hexadecimal digits."),
        ({"ci": {}}, "auth.keys.ci: needs key or sha256, and not both."),
        ({"ci": {"key": KEY, "sha256": "0" * 64}}, "auth.keys.ci: needs key or sha256, and not"),
        ({"a b": {"key": KEY}}, 'auth.keys."a b": cannot be the name of a principal.'),
        ({"anonymous": {"key": KEY}}, "auth.keys.anonymous: cannot be the name of a principal."),
        ({"a": {"key": KEY}, "b": {"key": KEY}}, 'auth.keys.b: has the same key as "a".'),
    ],
)
def test_a_bad_key_is_refused_without_being_shown(keys: dict[str, Any], expected: str) -> None:
    error = refused(None, auth={"keys": keys})
    assert str(error.problems[0]).startswith(expected)
    assert error.problems[0].remedy
    assert KEY not in str(error)
    assert "short" not in str(error).replace("shorter", "")


def test_the_digest_decides_who_calls() -> None:
    digest = ApiKey(key=Secret(KEY)).digest()
    settings = made(auth={"keys": {"ci": {"key": "x" * 16}, "bob": {"sha256": digest.upper()}}})
    assert settings.auth.principals()[digest].id == "bob"


@pytest.mark.parametrize(
    "url",
    [
        "agents.example",
        "/a2a",
        "ftp://x",
        "https://",
        "https://a b",
        "https://u:p@h",
        "http://h:x",
        "https://h?q=1",
        "https://h#f",
        "http://[::1",
    ],
)
def test_a_public_url_is_absolute(url: str) -> None:
    problem = only(server={"public_url": url}, auth=WITH_KEY)
    assert problem.key == "server.public_url"
    assert problem.what.startswith("expected a")
    assert problem.remedy == 'Example: public_url = "https://agents.example.com".'


def test_the_public_url_of_an_agent_is_absolute() -> None:
    problem = only(agents={"acme/echo": agent(public_url="/a2a")}, auth=WITH_KEY)
    assert problem.key == 'agents."acme/echo".public_url'
    assert problem.remedy == 'Example: public_url = "https://agents.example.com".'


def test_a_host_is_needed() -> None:
    assert only(server={"host": ""}, auth=WITH_KEY).what == "expected an address or a host name"


def test_a_key_without_grants_may_call_everything() -> None:
    (principal,) = made(auth=WITH_KEY).auth.principals().values()
    assert principal == Principal(id="ci", grants=EVERYTHING, token="ci", roles=(OPERATOR,))


def test_the_grants_of_a_key_are_those_of_its_principal() -> None:
    grants = {"acme/rust": ["SendMessage", "GetTask"], "acme/*": ["GetTask"], "*": ["*"]}
    settings = made(auth={"keys": {"ci": {"key": KEY, "grants": grants}}})
    (principal,) = settings.auth.principals().values()
    assert principal.grants == (
        Grant("acme/rust", frozenset({"SendMessage", "GetTask"})),
        Grant("acme/*", frozenset({"GetTask"})),
        Grant("*"),
    )
    (nothing,) = made(auth={"keys": {"ci": {"key": KEY, "grants": {}}}}).auth.principals().values()
    assert nothing.grants == ()


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        ({"acme": ["*"]}, "auth.keys.ci.grants.acme: names no agent. Name a handle, such as"),
        ({"Acme/Rust": ["*"]}, 'auth.keys.ci.grants."Acme/Rust": names no agent'),
        ({"*/rust": ["*"]}, 'auth.keys.ci.grants."*/rust": names no agent'),
        ({"acme/*": []}, 'auth.keys.ci.grants."acme/*": names no operation. Name some, or "*"'),
        (
            {"acme/*": ["GetTask", "SendMessages"]},
            'auth.keys.ci.grants."acme/*"[1] = "SendMessages": is no operation of A2A. '
            'Did you mean "SendMessage"?',
        ),
        ({"acme/*": ["message/send"]}, 'auth.keys.ci.grants."acme/*"[0] = "message/send": is no'),
        ({"acme/*": "GetTask"}, "auth.keys.ci.grants = {…}: expected a list, got a text"),
    ],
)
def test_a_wrong_grant_is_refused_with_the_remedy(grants: Any, expected: str) -> None:
    problem = only(auth={"keys": {"ci": {"key": KEY, "grants": grants}}})
    assert str(problem).startswith(expected)
