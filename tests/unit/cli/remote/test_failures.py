import pytest

from trunkline.cli.exit_codes import Exit, exit_of
from trunkline.cli.remote.failures import explained
from trunkline.cli.remote.invocation import Invocation
from trunkline.model.values import TaskState
from trunkline.remote import (
    AddressRefused,
    BadPeerAnswer,
    Bearer,
    InvalidTarget,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
    Target,
    TransportUnsupported,
)

CALL = Invocation(
    named="support", target=Target(url="https://a.test"), repeated=("--a2a-version", "0.3")
)


def refused(
    message: str = "no", *, retry_after_s: float | None = None, **fields: object
) -> PeerRefused:
    error = PeerRefused(message, **fields)  # type: ignore[arg-type]
    error.retry_after_s = retry_after_s
    return error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InvalidTarget("bad url"), Exit.WRONG_USE, "bad url."),
        (TransportUnsupported("none"), Exit.NOT_UNDERSTOOD, "Leave out --a2a-version"),
        (PeerUnreachable("down"), Exit.UNREACHABLE, "support (https://a.test): down. Is it"),
        (PeerUnreachable("x", reason="TLS_FAILED"), Exit.UNREACHABLE, "the certificate."),
        (
            StreamEnded("cut", task_id="t1"),
            Exit.UNREACHABLE,
            "The task may still run: trunkline watch support t1 --a2a-version 0.3",
        ),
        (PeerTimeout("slow"), Exit.TIMEOUT, "--timeout SECONDS."),
        (
            AddressRefused("it is private"),
            Exit.UNREACHABLE,
            "support (https://a.test): it is private.",
        ),
        (
            refused("not sent there", status=401, reason="CREDENTIALS_WITHHELD"),
            Exit.NO_ACCESS,
            "support (https://a.test) refuses access: not sent there.",
        ),
        (refused(status=401), Exit.NO_ACCESS, "Give a token with --token or TRUNKLINE_TOKEN"),
        (refused(reason="PERMISSION_DENIED"), Exit.NO_ACCESS, "refuses access: no."),
        (refused(reason="TASK_NOT_FOUND"), Exit.NOT_FOUND, "no. List your tasks: trunkline list"),
        (refused(reason="TASK_NOT_CANCELABLE"), Exit.REFUSED, "has ended cannot be canceled."),
        (refused(reason="VERSION_NOT_SUPPORTED"), Exit.NOT_UNDERSTOOD, "Leave out"),
        (refused(reason="METHOD_NOT_FOUND"), Exit.REFUSED, "cannot do that: no. Not every agent"),
        (
            refused(status=502),
            Exit.REFUSED,
            "internal problem: no. Try again later, or ask its operator",
        ),
        (
            refused(status=503, retry_after_s=7.2),
            Exit.REFUSED,
            "is not available: no. Try again in 7 s.",
        ),
        (refused(status=429, retry_after_s=7.2), Exit.REFUSED, "refuses: no. Try again in 7 s."),
        (refused(status=413), Exit.REFUSED, "Send less, or send a link to the file"),
        (
            BadPeerAnswer("nonsense"),
            Exit.NOT_UNDERSTOOD,
            "the answer of support (https://a.test) is not valid: nonsense. The agent may be",
        ),
        (BadPeerAnswer("forged", reason="BAD_SIGNATURE"), Exit.NOT_UNDERSTOOD, "Check card_keys"),
        (
            BadPeerAnswer("too big", reason="TOO_LARGE"),
            Exit.TOO_LARGE,
            "(https://a.test): too big.",
        ),
        (BadPeerAnswer("go there", reason="REDIRECT"), Exit.NOT_UNDERSTOOD, "go there."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RemoteError) else None,
)
def test_every_error_ends_with_a_code_and_words(error: RemoteError, code: Exit, words: str) -> None:
    found, text = explained(error, CALL)
    assert found is code
    assert words in text
    assert "\n" not in text


@pytest.mark.parametrize("error", [refused(status=404), BadPeerAnswer("HTML")])
def test_a_place_without_a_card_is_no_agent(error: RemoteError) -> None:
    code, text = explained(error, CALL, is_card=True)
    assert code is Exit.NOT_UNDERSTOOD
    assert text.startswith("there is no agent card at https://a.test/.well-known/agent-card.json")
    assert text.endswith(
        "Give the base URL of an A2A agent, of its card or of one of its interfaces."
    )


@pytest.mark.parametrize("status", [200, 502])
def test_an_agent_that_was_lost_has_refused_nothing(status: int) -> None:
    error = refused("The agent did not end its answer.", reason="AGENT_LOST", status=status)
    call = Invocation(named="support", target=Target(url="https://a.test"))
    begin = "support (https://a.test) was lost while it answered: The agent did not end its answer."
    assert explained(error, call) == (Exit.UNREACHABLE, f"{begin} Try again.")
    call.is_sent = True
    sent = f"{begin} The message may have arrived. See: trunkline list support"
    assert explained(error, call)[1] == sent
    error.task_id = "t1"
    assert explained(error, call)[1] == f"{begin} Follow it: trunkline watch support t1"


def test_what_the_agent_cannot_do_is_said_in_its_words_alone() -> None:
    _, text = explained(refused("the task has ended", reason="UNSUPPORTED_OPERATION"), CALL)
    assert text == "support (https://a.test) cannot do that: the task has ended."


CARD = "there is no agent card at https://a.test/.well-known/agent-card.json"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (refused("the agent answered with status 404", status=404), "status 404"),
        (refused("cards are at /a, /b", status=404), "status 404: cards are at /a, /b"),
        (refused("x" * 401, status=404), f"status 404: {'x' * 400}…"),
        (BadPeerAnswer(f"{CARD}: it answers text/html"), "it answers text/html"),
    ],
    ids=["status", "words", "many words", "html"],
)
def test_why_there_is_no_card_is_said_once(error: RemoteError, why: str) -> None:
    assert explained(error, CALL, is_card=True)[1].startswith(f"{CARD} ({why}). Give the base")


def test_a_credential_that_is_refused_is_not_shown() -> None:
    call = Invocation(
        named="x", target=Target(url="https://a.test", credentials=Bearer("very-secret"))
    )
    _, text = explained(refused("no\x1b[31m\nreally", status=403), call)
    assert "refuses access: no really. The agent does not accept the credential" in text
    assert "very-secret" not in text


@pytest.mark.parametrize(
    ("operation", "end"),
    [
        ("SendStreamingMessage", "of this agent. Or send without a stream: --no-stream."),
        ("CancelTask", "may not call CancelTask of this agent."),
    ],
)
def test_what_a_credential_may_not_do_does_not_make_it_a_wrong_one(
    operation: str, end: str
) -> None:
    call = Invocation(named="x", target=Target(url="https://a.test", credentials=Bearer("key")))
    said = f"This credential may not call {operation} of this agent"
    code, text = explained(refused(said, status=403, reason="PERMISSION_DENIED"), call)
    assert code is Exit.NO_ACCESS
    assert text.endswith(end)
    assert "does not accept" not in text
    # Without a credential, one may help.
    assert "--token" in explained(refused(said, status=403, reason="PERMISSION_DENIED"), CALL)[1]


def test_a_remedy_is_not_said_twice() -> None:
    error = refused("No agent; check it, or try again later", status=503, retry_after_s=5)
    assert explained(error, CALL)[1].endswith("or try again later.")


def test_a_command_to_go_on_can_be_pasted() -> None:
    call = Invocation(
        named="my agent",
        target=Target(url="https://a.test"),
        repeated=("--config", "'a b.toml'", "--token", "…"),
    )
    assert call.command("watch", "t1") == (
        "trunkline watch 'my agent' t1 --config 'a b.toml' --token …"
    )
    assert call.command("send", "--continue", says=True) == (
        "trunkline send 'my agent' --continue \"…\" --config 'a b.toml' --token …"
    )


@pytest.mark.parametrize(
    ("task_id", "shown"),
    [
        ("x…; rm -rf ~", "'x…; rm -rf ~'"),
        ("$(reboot)'", "'$(reboot)'\"'\"''"),
        ("a\x1b]0;t\x07\x9b31m\nb", "'a b'"),
    ],
)
def test_an_id_of_the_agent_cannot_do_harm_in_a_command(task_id: str, shown: str) -> None:
    call = Invocation(named="a", target=Target(url="https://a.test"))
    assert call.command("watch", task_id) == f"trunkline watch a {shown}"
    _, text = explained(StreamEnded("cut", task_id=task_id), call)
    assert text.endswith(f"trunkline watch a {shown}")


def test_every_exit_code_has_one_meaning() -> None:
    assert all(code.meaning for code in Exit)
    assert len({code.meaning for code in Exit}) == len(Exit)
    codes = {state: exit_of(state) for state in TaskState}
    assert codes[TaskState.COMPLETED] is Exit.DONE
    bad = [codes[state] for state in TaskState if codes[state]]
    assert sorted(bad) == [3, 4, 5, 6, 7]
    assert exit_of(None) is Exit.DONE
