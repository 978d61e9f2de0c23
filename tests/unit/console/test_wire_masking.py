"""A secret never survives in what is recorded, and everything else stays as it came."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.config.masking import MASK, KnownSecrets
from trunkline.console.wire.masking import Masker

SECRET = "Zq7-open-sesame"
# Names under which a secret may come, and those that only look like one.
SECRET_NAMES = [
    "password",
    "Password",
    "secret",
    "client_secret",
    "clientSecret",
    "token",
    "access_token",
    "refreshToken",
    "apiKey",
    "api-key",
    "API_KEY",
    "authorization",
    "credentials",
    "private_key",
]
OPEN_NAMES = ["nextPageToken", "pageToken", "tokenUrl", "authorizationUrl", "text", "inputTokens"]

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
layouts = st.sampled_from(
    [
        {},
        {"indent": 2},
        {"separators": (",", ":")},
        {"separators": (" , ", "  :  ")},
        {"ensure_ascii": False},
    ]
)
# Six characters or more, of all kinds, which no other part of a document has.
secrets = st.text(st.characters(codec="utf-8"), min_size=3, max_size=12).map(
    lambda text: f"§{text}§{text[::-1]}§"
)


def texts(value: Any) -> Iterator[str]:
    """All strings of a document."""
    match value:
        case str():
            yield value
        case dict():
            for name, each in value.items():
                yield name
                yield from texts(each)
        case list():
            for each in value:
                yield from texts(each)
        case _:
            pass


def masker(*known: str) -> Masker:
    return Masker(KnownSecrets(known))


@given(
    secret=secrets,
    name=st.sampled_from(SECRET_NAMES),
    around=documents,
    depth=st.integers(0, 3),
    layout=layouts,
    is_nested=st.booleans(),
)
def test_the_value_of_a_secret_member_never_survives(
    secret: str, name: str, around: Any, depth: int, layout: dict[str, Any], is_nested: bool
) -> None:
    value: Any = {"inner": [secret, {"deep": secret}]} if is_nested else secret
    document: Any = {"before": around, name: value, "behind": "stays"}
    for _ in range(depth):
        document = {"outer": [around, document]}
    masked = masker().body(json.dumps(document, **layout))
    again = json.loads(masked)
    assert not any(secret in text for text in texts(again))
    for _ in range(depth):
        again = again["outer"][1]
    assert again["behind"] == "stays"


@given(name=st.sampled_from(SECRET_NAMES), at=st.integers(0, 20))
def test_a_name_in_escapes_is_known(name: str, at: int) -> None:
    at %= len(name)
    escaped = f"{name[:at]}\\u{ord(name[at]):04x}{name[at + 1 :]}"
    masked = masker().body(f'{{"{escaped}": "{SECRET}", "text": "stays"}}')
    assert SECRET not in masked
    assert json.loads(masked)["text"] == "stays"


@given(document=documents, layout=layouts)
def test_a_document_without_secrets_stays_as_it_came(document: Any, layout: Any) -> None:
    text = json.dumps({"message": {"parts": [{"data": document}]}, "jsonrpc": "2.0"}, **layout)
    names = json.dumps(document).lower()
    if not any(word in names for word in ("token", "secret", "passw", "key", "auth", "bear")):
        assert masker().body(text) == text


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_a_name_that_only_looks_like_a_secret_keeps_its_value(name: str) -> None:
    text = json.dumps({name: "https://login.example/x"})
    assert masker().body(text) == text


def test_the_security_schemes_of_a_card_stay() -> None:
    card = {
        "securitySchemes": {
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "token": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
        },
        "security": [{"apiKey": []}],
    }
    text = json.dumps(card)
    assert masker().body(text) == text


def test_a_push_configuration_keeps_its_form() -> None:
    config = {
        "url": "https://client.example/hook",
        "token": "a-token-of-the-client",
        "authentication": {"schemes": ["Bearer"], "credentials": "hush-hush"},
    }
    masked = json.loads(masker().body(json.dumps({"params": {"pushNotificationConfig": config}})))
    assert masked["params"]["pushNotificationConfig"] == {
        "url": "https://client.example/hook",
        "token": MASK,
        "authentication": {"schemes": ["Bearer"], "credentials": MASK},
    }


@given(secret=secrets, before=st.text(max_size=6), layout=layouts)
def test_a_known_secret_never_survives_wherever_it_is(
    secret: str, before: str, layout: dict[str, Any]
) -> None:
    known = masker(secret)
    in_json = known.body(json.dumps({"text": f"{before}{secret}!"}, **layout))
    assert not any(secret in text for text in texts(json.loads(in_json)))
    assert secret not in known.body(f"plain {secret} text")
    assert secret not in known.header("X-Note", f"see {secret}")
    assert quote(secret, safe="") not in known.url(f"/a?q={quote(secret, safe='')}")
    assert quote_plus(secret) not in known.body(f"q={quote_plus(secret)}", is_form=True)
    assert secret not in known.plain(f"refused: {secret}")


@given(text=st.text(), is_form=st.booleans())
def test_any_text_can_be_masked(text: str, is_form: bool) -> None:
    for each in (text, f'{{"token":{text}', f'data: {{"secret": {text}', f'"\\"token\\":{text}'):
        masker("known-secret").body(each, is_form=is_form)
        masker("known-secret").url(each)
        masker("known-secret").header("Authorization", each)


@given(cut=st.integers(0, 400))
def test_a_secret_at_the_end_of_a_document_that_was_cut_does_not_survive(cut: int) -> None:
    text = json.dumps({"text": "x" * 20, "deep": {"password": SECRET}, "list": [1, 2]})[:cut]
    masked = masker().body(text)
    assert "sesame" not in masked
    assert SECRET[:6] not in masked


@pytest.mark.parametrize(
    "text",
    [
        "tl_key_0123456789abcdef0123456789abcdef01234567",
        "cw_sess_0123456789abcdef0123456789abcdef",
        "tl_tool_0123456789abcdef0123456789abcdef01234567",
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl",
        "Bearer 0123456789abcdef",
    ],
)
def test_a_token_is_known_by_its_looks(text: str) -> None:
    token = text.removeprefix("Bearer ")
    assert token not in masker().body(json.dumps({"text": f"use {text} please"}))
    assert token not in masker().body(f"data: use {text}\n\n")
    assert token not in masker().url(f"/a/{text}/b")
    assert token not in masker().header("X-Any", text)
    assert token not in masker().plain(text)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("Authorization", f"Bearer {SECRET}", f"Bearer {MASK}"),
        ("authorization", SECRET, MASK),
        ("Proxy-Authorization", f"Basic {SECRET}", f"Basic {MASK}"),
        ("X-API-Key", SECRET, MASK),
        ("Cookie", f"tl_session={SECRET}; theme=dark", MASK),
        ("Set-Cookie", f"tl_console={SECRET}; HttpOnly", MASK),
        ("X-Team-Secret", SECRET, MASK),
        ("X-Hub-Token", SECRET, MASK),
        ("Idempotency-Key", "a-key", "a-key"),
        ("Content-Type", "application/json", "application/json"),
        (
            "Referer",
            f"https://a.example/?token={SECRET}&x=1",
            f"https://a.example/?token={MASK}&x=1",
        ),
    ],
)
def test_headers(name: str, value: str, shown: str) -> None:
    assert masker().header(name, value) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"/a2a?token={SECRET}&x=1", f"/a2a?token={MASK}&x=1"),
        (f"/a2a?x=1&api_key={SECRET}", f"/a2a?x=1&api_key={MASK}"),
        (f"/a2a?%74oken={SECRET}", f"/a2a?%74oken={MASK}"),
        (f"http://alice:{SECRET}@host/a", f"http://{MASK}@host/a"),
        ("/tasks?pageToken=abc", "/tasks?pageToken=abc"),
        (f"/?code={SECRET}", f"/?code={MASK}"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    assert masker().url(url) == shown


def test_the_arguments_of_a_tool_are_json_in_a_string() -> None:
    arguments = json.dumps({"city": "Rome", "apiKey": SECRET})
    masked = masker().body(json.dumps({"tool_calls": [{"arguments": arguments}]}))
    (call,) = json.loads(masked)["tool_calls"]
    assert json.loads(call["arguments"]) == {"city": "Rome", "apiKey": MASK}


def test_an_event_whose_json_is_on_several_lines() -> None:
    event = f'event: x\ndata: {{"token":\ndata: "{SECRET}",\ndata: "text": "stays"}}\n\n'
    masked = masker().body(event)
    assert SECRET not in masked
    assert '"text": "stays"' in masked


def test_a_form_of_oauth() -> None:
    body = f"grant_type=client_credentials&client_id=a&client_secret={SECRET}"
    assert masker().body(body, is_form=True) == (
        f"grant_type=client_credentials&client_id=a&client_secret={MASK}"
    )


def dumped(value: Any) -> str:
    return json.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        dumped({"password": f'a"b{SECRET}'}),
        dumped({"password": {"x": SECRET}}),
        dumped({"password": [1, SECRET]}),
        dumped({"next": dumped({"token": [f'"{SECRET}']})}),
        "It said: " + dumped({"passphrase": f'"{SECRET}'}),
        f"https://user:{SECRET}@host/path",
        f"https://store.example/file?X-Amz-Signature={SECRET}&a=b",
        f"https://host/#access_token={SECRET}",
        f"https://host/?next=https%3A%2F%2Fhost%2F%3Ftoken%3D{SECRET}",
        "https://host/?filter=%7B%22password%22%3A%22" + SECRET + "%22%7D",
        "Authorization: Basic " + b64encode(f"user:{SECRET}".encode()).decode(),
    ],
)
def test_a_secret_within_a_string(value: str) -> None:
    masker = Masker(KnownSecrets())
    hidden = (SECRET, b64encode(f"user:{SECRET}".encode()).decode())
    for text in (
        dumped({"a": value, "b": "stays"}),
        "data: " + dumped({"a": value, "b": "stays"}),
        dumped({"a": value, "b": "stays"}).replace("/", "\\/"),
        # Cut off by the end of what is kept.
        dumped({"b": "stays", "a": value + "more"})[:-4],
    ):
        masked = masker.body(text)
        assert not any(each in masked for each in hidden), masked
        assert "stays" in masked


def test_addresses_and_words_that_hold_no_secret_stay() -> None:
    text = dumped(
        {
            "a": "See https://host/@me?page=2&lang=en#top, or write to me@example.org.",
            "b": "Basic authentication, basic facts: https://host:8080/a%20b?c=%7B%22d%22%3A1%7D",
            "c": dumped({"d": 'a "word"'}),
        }
    )
    assert Masker(KnownSecrets()).body(text) == text


def test_secrets_in_headers_and_queries() -> None:
    masker = Masker(KnownSecrets())
    for name, value in (
        ("Referer", f"https://user:{SECRET}@host/"),
        ("X-Jwt", SECRET),
        ("X-Auth", SECRET),
        ("X-Note", "Basic " + b64encode(f"user:{SECRET}".encode()).decode()),
    ):
        masked = masker.header(name, value)
        assert SECRET not in masked
        assert b64encode(f"user:{SECRET}".encode()).decode() not in masked
    for name in ("pwd", "pass", "jwt", "otp", "client_assertion", "X-Amz-Signature", "pass%77ord"):
        assert masker.url(f"/rpc?a=b&{name}={SECRET}") == f"/rpc?a=b&{name}={MASK}"


@pytest.mark.parametrize("header", ["Bearer {}", "Basic {}", "{}"])
def test_a_known_secret_of_a_header_is_found_in_every_form(header: str) -> None:
    secret = 'known/s"ecret+cönfig value'
    masker = Masker(KnownSecrets([header.format(secret)]))
    quoted = quote(secret, safe="")
    lowered = re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    for form in (secret, quoted, lowered, quote_plus(secret), dumped(secret)[1:-1]):
        assert masker.plain(f"<{form}>") == f"<{MASK}>"


def test_an_address_that_is_encoded_over_and_over_ends_the_search() -> None:
    text = "https://host/?a=%" + "25" * 50_000 + "20"
    assert Masker(KnownSecrets()).body(dumped(text)) == dumped(text)
