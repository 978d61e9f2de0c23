import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from trunkline.server.logs import Form, Redaction, configure

SECRET = "k3y/with+signs=and-more"
UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "asyncio", "mcp")


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", *UVICORN)]
    before = [(log.handlers[:], log.level, log.propagate, log.disabled) for log in loggers]
    yield
    for log, (handlers, level, propagate, disabled) in zip(loggers, before, strict=True):
        log.handlers[:] = handlers
        log.setLevel(level)
        log.propagate, log.disabled = propagate, disabled


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def out(form: Form = "json", **keys: Any) -> io.StringIO:
    stream = io.StringIO()
    configure(form=form, stream=stream, secrets=[SECRET], **keys)
    return stream


def line(stream: io.StringIO) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(stream.getvalue())
    return made


def test_a_json_line_has_time_level_logger_message_and_extras() -> None:
    stream = out()
    logging.getLogger("trunkline.server").info("turn %s", "done", extra={"task_id": "t1", "n": 2})
    made = line(stream)
    assert made.pop("ts").endswith("Z")
    assert made == {
        "level": "info",
        "logger": "trunkline.server",
        "msg": "turn done",
        "task_id": "t1",
        "n": 2,
    }


def test_an_extra_cannot_pass_for_the_level() -> None:
    stream = out()
    logging.getLogger("x").error("m", extra={"level": "info"})
    assert (line(stream)["level"], line(stream)["level_"]) == ("error", "info")


def test_a_traceback_is_one_field_of_the_line() -> None:
    stream = out()
    try:
        raise ValueError(f"bad {SECRET}")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError: bad ***" in line(stream)["error"]


def test_the_human_form_is_one_short_line() -> None:
    stream = out("human")
    logging.getLogger("trunkline.server.http").warning("slow", extra={"ms": 12, "why": "a b"})
    text = stream.getvalue()
    assert text[8:] == ' WARNING server.http: slow  ms=12 why="a b"\n'


def test_a_traceback_neither_drives_the_terminal_nor_passes_for_a_record() -> None:
    stream = out("human")
    try:
        raise ValueError("what a caller said\x1b[2J\n12:30:01 INFO  server: all is well")
    except ValueError:
        logging.getLogger("trunkline.x").exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("failed")
    assert rest[-2].endswith("what a caller said\\x1b[2J")
    assert all(line.startswith("  ") for line in rest)
    assert "\x1b" not in stream.getvalue()


def test_the_human_form_shows_the_traceback() -> None:
    stream = out("human")
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert stream.getvalue().endswith("ValueError: bad\n")


def test_a_message_cannot_forge_lines_or_drive_the_terminal() -> None:
    stream = out("human")
    logging.getLogger("x").info("a\n12:00:00 INFO \x1b[2J", extra={"v": "b\nc"})
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_auto_is_human_and_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, plain = Terminal(), Terminal()
    configure(stream=terminal)
    logging.getLogger("x").info("m")
    assert "\x1b[36mINFO" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    configure(stream=plain)
    logging.getLogger("x").info("m")
    assert plain.getvalue().endswith("INFO  x: m\n")
    assert "\x1b" not in plain.getvalue()


def test_auto_is_json_elsewhere() -> None:
    stream = out("auto")
    logging.getLogger("x").info("m")
    assert line(stream)["msg"] == "m"


def test_levels_are_kept() -> None:
    stream = out(level="warning")
    logging.getLogger("x").info("no")
    assert stream.getvalue() == ""


def test_uvicorn_goes_through_the_same_handler() -> None:
    logging.getLogger("uvicorn.error").addHandler(logging.StreamHandler())
    stream = out()
    logging.getLogger("uvicorn.error").error("lost", extra={"color_message": "\x1b[1mlost"})
    made = line(stream)
    assert (made["logger"], made["msg"]) == ("uvicorn.error", "lost")
    assert "color_message" not in made
    assert logging.getLogger("uvicorn.error").handlers == []


@pytest.mark.parametrize("wanted", [True, False])
def test_requests_are_logged_when_wanted(wanted: bool) -> None:
    stream = out(requests=wanted)
    access = logging.getLogger("uvicorn.access")
    access.info('%s - "%s %s HTTP/%s" %d', "::1", "GET", "/?token=abcdefgh&x=1", "1.1", 200)
    assert ("GET" in stream.getvalue()) is wanted
    assert "abcdefgh" not in stream.getvalue()


@pytest.mark.parametrize("form", ["human", "json"])
def test_a_configured_secret_never_appears(form: Form) -> None:
    stream = out(form)
    log = logging.getLogger("x")
    log.info("sent %s to %s", SECRET, {"key": [SECRET]})
    log.info("x", extra={"a": {"b": (SECRET,)}, "c": SECRET, "d": ValueError(SECRET)})
    log.info("quoted %s", "k3y%2Fwith%2Bsigns%3Dand-more")
    # Half in the format, half in the argument.
    log.info(f"{SECRET[:5]}%s", SECRET[5:])
    text = stream.getvalue()
    assert text.count("***") == 7
    assert "with" not in text.replace("with ", "")


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef123456",
        "authorization=Basic YWJjOmRlZg==",
        "{'authorization': 'Bearer abcdef123456'}",
        '{"Authorization":"abcdef123456"}',
        "(b'authorization', b'Bearer abcdef123456')",
        "Proxy-Authorization: Basic YWJjOmRlZg==",
        "got bearer abcdef123456 from",
        "X-API-Key: abcdef123456",
        "x-api-key=abcdef123456&x=1",
        "[(b'x-api-key', b'abcdef123456')]",
        '{"api_key": "abcdef123456"}',
        "?access_token=abcdef123456",
        "Cookie: abcdef123456",
        '{\\"token\\":\\"abcdef123456\\"}',
        "password=abcdef123456",
    ],
)
def test_credentials_are_masked_wherever_they_stand(text: str) -> None:
    cleaned = Redaction().clean(text)
    assert "***" in cleaned
    assert "abcdef" not in cleaned
    assert "YWJj" not in cleaned


@pytest.mark.parametrize(
    "text",
    ["the token expired", "tokens: 12 of 20 used", "authorization failed", "bearer of news", "a=1"],
)
def test_ordinary_words_stay(text: str) -> None:
    assert Redaction().clean(text) == text


@pytest.mark.parametrize("name", ["authorization", "api_key", "x-api-key", "push.token", "cookie"])
def test_an_extra_with_the_name_of_a_credential_is_masked(name: str) -> None:
    stream = out()
    logging.getLogger("x").info("m", extra={name: "abcdef", "headers": {name: "abcdef"}})
    assert "abcdef" not in stream.getvalue()
    assert line(stream)[name] == "***"


def test_numbers_keep_their_kind() -> None:
    stream = out()
    logging.getLogger("x").info("m", extra={"tokens": 5, "token": 7, "ok": True, "none": None})
    made = line(stream)
    assert (made["tokens"], made["token"], made["ok"], made["none"]) == (5, 7, True, None)


def test_secrets_come_and_go_with_the_parts_that_have_them() -> None:
    redaction = Redaction(["first-secret"])
    redaction.hide(["second-secret", "first-secret"])
    text = "first-secret second-secret"
    assert redaction.clean(text) == "*** ***"
    # Another part still has the first one.
    redaction.forget(["second-secret", "first-secret"])
    assert redaction.clean(text) == "*** second-secret"
    redaction.forget(["first-secret", "never-hidden"])
    assert redaction.clean(text) == text
