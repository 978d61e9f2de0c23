"""Questions in the audit: short, without secrets, and without taking long."""

import pytest

from trunkline.hub.redaction import MARK, MAX_CHARS, Redaction
from trunkline.model.values import Part


def question(text: str, *more: str) -> str:
    return Redaction(more).question([Part(text=text)])


@pytest.mark.parametrize(
    "secret",
    [
        "Bearer abcdefgh12345678",
        "tl_sess_0123456789abcdef0123456789abcdef",
        "cw_sess_0123456789abcdef0123456789abcdef",
        "tl_key_abcdefghij",
        "sk-abcdefghijklmnop1234",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnopqrst",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "password: hunter2",
        "API_KEY=abc",
        "alice.smith+x@mail.example.com",
        "jürgen@müller.example",
        "password='two words'",
        "password is hunter2",
        "Authorization: Basic dXNlcjpw",
        "0123456789abcdef0123456789abcdef01234567",
        "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
    ],
)
def test_secrets_are_hidden(secret: str) -> None:
    assert question(f"look at {secret} now") == f"look at {MARK} now"


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASSWORD=hunter2",
        "clientSecret: hunter2",
        "AWS_SECRET_ACCESS_KEY = hunter2",
        "x-access-token:hunter2",
    ],
)
def test_secrets_are_hidden_whatever_their_names_begin_with(text: str) -> None:
    assert question(f"set {text} now").endswith(f"{MARK} now")
    assert "hunter2" not in question(text)


def test_a_password_in_a_url_is_hidden() -> None:
    assert question("see https://bob:hunter2@db.example/x") == f"see https{MARK}db.example/x"


def test_secrets_in_json_are_hidden() -> None:
    text = '{"user": "bob", "password": "hunter2", "apiKey":"k-1", "n": 1}'
    assert question(text) == f'{{"user": "bob", "{MARK}, "{MARK}, "n": 1}}'
    assert "hunter2" not in question('{"password": "two hunter2')


@pytest.mark.parametrize(
    "text",
    [
        "what's a lifetime in rust? See https://doc.rust-lang.org/book/ch10.html, p. 12",
        "a basic understanding of tokens, secrets and passwords",
        "the tokenizer: how does it work?",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert question(text) == text


def test_a_secret_that_the_end_would_halve_is_hidden_whole() -> None:
    found = question("x " * (MAX_CHARS // 2 - 5) + "tl_sess_0123456789abcdef0123456789abcdef")
    assert "tl_sess" not in found
    assert len(found) <= MAX_CHARS


def test_a_long_secret_brings_no_half_of_another_one_into_view() -> None:
    text = "a" * 600 + " " + "word " * 39 + "carol@example.org"
    for length in range(len(text) - 20, len(text) + 1):
        found = question("x " + text[:length] + "p" * 200)
        assert found == f"x {MARK}…"
    assert question("a" * 600) == MARK


def test_texts_of_the_configuration_are_hidden() -> None:
    assert question("in CASE-123456, of project-x1y", "CASE-######", "project-*") == (
        f"in {MARK}, of {MARK}"
    )
    assert question("a.b axb", "a.b") == f"{MARK} axb"


def test_only_the_texts_of_a_message_are_kept() -> None:
    parts = [Part(text="one"), Part(raw=b"secret"), Part(data={"a": 1}), Part(text="two")]
    assert Redaction().question(parts) == "one two"
    assert len(question("long " * 1000)) <= MAX_CHARS


@pytest.mark.parametrize(
    "text",
    [
        "a" * 5000,
        "a@" * 2500,
        "-" * 5000,
        "a." * 2500,
        "password " * 900,
        "A-" * 2500,
        " " * 5000,
        "token_" * 800,
        "token:" * 800,
        "secret = " * 500,
        "authorization: x " * 300,
        "é@" * 2500,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """An expression that tries all ways would not come to an end here."""
    redaction = Redaction(["*a*", "x#*"])
    for _ in range(20):
        redaction.question([Part(text=text)])
