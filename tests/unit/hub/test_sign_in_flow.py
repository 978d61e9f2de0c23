"""The flow of a sign-in: what its parameters may be, and what its cookie gives back."""

import base64
import hashlib

import msgspec
import pytest

from trunkline.hub.sign_in_flow import (
    FLOW_S,
    Program,
    SignInFlow,
    as_cookie,
    base64url,
    challenge_of,
    checked_next,
    checked_program,
    from_cookie,
)
from trunkline.model.errors import InvalidParams

SECRET = "s" * 43
NOW_MS = 1_800_000_000_000
CHALLENGE = challenge_of("v" * 43)
FLOW = SignInFlow(SECRET, "passwords", NOW_MS, "/console?tab=1#top")
PROGRAM = Program("http://localhost:4321/callback", "their-state", CHALLENGE)


@pytest.mark.parametrize("path", ["", "/", "/a", "/a/b?c=d&e=//f", "/a:b", "/%2F%2Fx", "/a/../b"])
def test_paths_of_the_gateway_are_taken(path: str) -> None:
    assert checked_next(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/a\\b",
        "https:evil.example",
        "https://evil.example/",
        "javascript:alert(1)",
        "evil.example",
        "a/b",
        " /a",
        "/ //evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "/a\r\nSet-Cookie: tl_session=x",
        "/\x00",
        "/é",
        "/" + "a" * 1001,
    ],
)
def test_whatever_may_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        checked_next(path)
    assert caught.value.violations[0].field == "next"


@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost:1/callback",
        "http://127.0.0.1:65535/cb",
        "http://[::1]:8080/a/b.c",
        "http://localhost:8080",
    ],
)
def test_loopback_addresses_of_programs_are_taken(uri: str) -> None:
    program = checked_program(redirect_uri=uri, state="s", challenge=CHALLENGE, method="S256")
    assert program is not None
    assert program.location(code="a&b") == f"{uri}?code=a%26b&state=s"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://localhost:1/callback",
        "http://localhost/callback",
        "http://localhost:0/callback",
        "http://localhost:65536/callback",
        "http://localhost.evil.example:80/callback",
        "http://127.0.0.1.evil.example:80/",
        "http://127.0.0.2:80/",
        "http://user@localhost:80/",
        "http://localhost:80@evil.example/",
        "http://localhost:80/callback?x=y",
        "http://localhost:80/callback#x",
        "http://localhost:80/\r\nX: y",
        "http://localhost:80/callback\n",
        "http://localhost:80\\@evil.example/",
        "http://evil.example:80/callback",
        "myapp://callback",
        "//localhost:80/",
    ],
)
def test_other_addresses_of_programs_are_refused(uri: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        checked_program(redirect_uri=uri, state="s", challenge=CHALLENGE, method="S256")
    assert caught.value.violations[0].field == "redirect_uri"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("state", {"state": ""}),
        ("state", {"state": "a b"}),
        ("state", {"state": "é"}),
        ("state", {"state": "x" * 501}),
        ("code_challenge_method", {"method": "plain"}),
        ("code_challenge_method", {"method": ""}),
        ("code_challenge", {"challenge": ""}),
        ("code_challenge", {"challenge": "a" * 42}),
        ("code_challenge", {"challenge": "a" * 42 + "="}),
    ],
)
def test_programs_must_send_a_state_and_a_challenge(field: str, values: dict[str, str]) -> None:
    good = {
        "redirect_uri": PROGRAM.redirect_uri,
        "state": "s",
        "challenge": CHALLENGE,
        "method": "S256",
    }
    with pytest.raises(InvalidParams) as caught:
        checked_program(**{**good, **values})
    assert caught.value.violations[0].field == field


def test_a_browser_has_no_program() -> None:
    assert checked_program(redirect_uri="", state="", challenge="", method="") is None


def test_the_cookie_gives_the_flow_back() -> None:
    flow = msgspec.structs.replace(FLOW, program=PROGRAM)
    assert from_cookie(as_cookie(flow), now_ms=NOW_MS + FLOW_S * 1000) == flow


def test_what_is_derived_differs_and_does_not_tell_the_secret() -> None:
    derived = [FLOW.state, FLOW.nonce, FLOW.verifier, FLOW.form_token, FLOW.challenge]
    assert len(set(derived)) == 5
    assert all(len(each) == 43 and SECRET not in each for each in derived)
    # RFC 7636, 4.2
    digest = hashlib.sha256(FLOW.verifier.encode()).digest()
    assert FLOW.challenge == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    other = msgspec.structs.replace(FLOW, secret="t" * 43)
    assert FLOW.has_state(FLOW.state)
    assert not FLOW.has_state(other.state)
    assert not FLOW.has_state("")
    assert not FLOW.has_form_token("\ud800é")
    assert SECRET not in repr(FLOW)


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "x",
        "=",
        "é",
        "a" * 4000,
        base64url(b"{}"),
        base64url(b"[1,2]"),
        base64url(b"\xff\xfe"),
        base64url(b"[" * 2000),
        as_cookie(msgspec.structs.replace(FLOW, secret="short")),
        as_cookie(msgspec.structs.replace(FLOW, next="//evil.example")),
        as_cookie(
            msgspec.structs.replace(
                FLOW, program=Program("http://evil.example:80/", "s", CHALLENGE)
            )
        ),
        as_cookie(msgspec.structs.replace(FLOW, started_ms=NOW_MS - FLOW_S * 1000 - 1)),
        as_cookie(msgspec.structs.replace(FLOW, started_ms=NOW_MS + FLOW_S * 1000 + 1)),
    ],
)
def test_other_cookies_hold_no_flow(cookie: str) -> None:
    assert from_cookie(cookie, now_ms=NOW_MS) is None
