"""Each failure has a sentence for the caller, and no word of the server's in it."""

import pytest

from trunkline.backends.openai.failures import ModelFailure, of_remote, of_status
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.backends.openai.wire import error_code
from trunkline.config.secret import Secret
from trunkline.remote.errors import BadPeerAnswer, PeerTimeout, PeerUnreachable, RemoteError


@pytest.mark.parametrize(
    ("status", "reason", "may_retry"),
    [
        (400, "The model server refuses the request.", False),
        (401, "The model server does not let the gateway in.", False),
        (403, "The model server does not let the gateway in.", False),
        (404, "The model server does not have this model.", False),
        (413, "What was asked is too large for the model server.", False),
        (418, "The model server refuses the request.", False),
        (429, "The model server has too much to do. Try again later.", True),
        (500, "The model server failed.", False),
        (503, "The model server failed. Try again later.", True),
    ],
)
def test_statuses(status: int, reason: str, may_retry: bool) -> None:
    failure = of_status(status, "", "sk-secret said the server")
    assert (failure.reason, failure.may_retry) == (reason, may_retry)


def test_a_wait_that_the_server_names() -> None:
    failure = of_status(429, "", "", retry_after_s=20.0)
    assert (failure.may_retry, failure.retry_after_s) == (True, 20.0)
    failure = of_status(429, "", "", retry_after_s=600.0)
    assert failure.reason == "The model server has too much to do. Try again in 600 seconds."
    assert not failure.may_retry


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("context_length_exceeded", ""),
        ("", "This model's maximum context length is 8192 tokens."),
        ("400", "the request exceeds the available context window"),
    ],
)
def test_a_conversation_that_is_too_long(code: str, text: str) -> None:
    assert of_status(400, code, text).reason == "The conversation is too long for the model."


@pytest.mark.parametrize(
    ("error", "has_begun", "reason"),
    [
        (PeerUnreachable("x", is_unsent=True), False, "The model server cannot be reached."),
        (PeerTimeout("x", reason="CONNECT_TIMEOUT"), False, "The model server cannot be reached."),
        (PeerUnreachable("x"), True, "The model server broke off in the middle of its answer."),
        (PeerUnreachable("x", reason="CLOSED"), False, "The gateway is stopping."),
        (
            PeerTimeout("x", reason="IDLE_TIMEOUT"),
            True,
            "The model server was silent for too long.",
        ),
        (PeerTimeout("x", reason="CALL_TIMEOUT"), True, "The model took too long to answer."),
        (
            BadPeerAnswer("x", reason="REDIRECT"),
            False,
            "The model server sent something that is not an answer.",
        ),
        (BadPeerAnswer("x"), False, "The model server sent something that is not an answer."),
    ],
)
def test_failures_of_the_connection(error: RemoteError, has_begun: bool, reason: str) -> None:
    assert of_remote(error, has_begun=has_begun).reason == reason


def test_only_what_has_not_begun_is_asked_again() -> None:
    def failure(has_begun: bool) -> ModelFailure:
        return of_remote(PeerUnreachable("x"), has_begun=has_begun)

    assert failure(False).may_retry
    assert not failure(True).may_retry


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"error": {"code": "x", "message": "y"}}', ("x", "y")),
        (b'{"error": "y"}', ("", "y")),
        (b'{"detail": "y"}', ("", "y")),
        (b'"y"', ("", "y")),
        (b"<html>", ("", "<html>")),
    ],
)
def test_what_a_server_says_about_an_error(body: bytes, found: tuple[str, str]) -> None:
    assert error_code(body) == found


def test_secrets_are_masked_wherever_a_server_quotes_them() -> None:
    headers = {"Authorization": Secret("Bearer sk-12345678"), "X-Short": Secret("abc")}
    settings = OpenAISettings(base_url="http://x/v1/", model="m", headers=headers)
    assert settings.without_secrets("wrong key sk-12345678 abc") == "wrong key *** abc"
    assert "12345678" not in repr(settings)
    assert settings.url("models") == "http://x/v1/models"
