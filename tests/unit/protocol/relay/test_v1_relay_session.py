import json
from typing import Any

import pytest
from msgspec import Raw

from trunkline.model.errors import PayloadTooLarge, TooManyRequests
from trunkline.protocol.relay.close_codes import BAD_FRAME, TOO_LARGE
from trunkline.protocol.relay.frames import Violation
from trunkline.protocol.relay.v1.frames import MAX_FRAME_BYTES
from trunkline.protocol.relay.v1.relay_session import (
    MAX_PENDING,
    Answered,
    Pinged,
    V1RelaySession,
    read_auth,
)


def answer(id: str, **payload: Any) -> str:
    return json.dumps({"type": "a2a.response", "payload": {"id": id, **payload}})


def test_a_request_has_an_id_of_the_connection() -> None:
    session = V1RelaySession(prefix="p")
    id, message = session.ask("tasks/get", b'{"id":"t"}', timeout_s=30)
    assert json.loads(message) == {
        "type": "a2a.request",
        "payload": {
            "id": id,
            "method": "tasks/get",
            "params": {"id": "t"},
            "timeout_ms": 30_000,
        },
    }
    assert id != session.ask("tasks/get", b"{}", timeout_s=30)[0]
    assert id != V1RelaySession(prefix="q").ask("tasks/get", b"{}", timeout_s=30)[0]


def test_each_request_is_answered_once() -> None:
    session = V1RelaySession(prefix="p")
    id, _ = session.ask("tasks/get", b"{}", timeout_s=30)
    answered = session.receive(answer(id, result={"a": 1}))
    assert isinstance(answered, Answered)
    assert answered.response.result == Raw(b'{"a": 1}')
    assert session.receive(answer(id, result={"a": 2})) is None


def test_an_answer_to_a_request_that_was_given_up_is_passed_over() -> None:
    session = V1RelaySession(prefix="p")
    id, _ = session.ask("tasks/get", b"{}", timeout_s=30)
    session.forget(id)
    assert session.receive(answer(id, result=1)) is None
    assert session.closing is None


def test_answers_to_no_request_are_bounded() -> None:
    session = V1RelaySession(prefix="p")
    closed = []
    for _ in range(1001):
        session.receive(answer("none"))
        closed.append(session.closing is not None)
    assert closed == [False] * 1000 + [True]


def test_the_requests_under_way_are_bounded() -> None:
    session = V1RelaySession(prefix="p")
    ids = [session.ask("tasks/get", b"{}", timeout_s=1)[0] for _ in range(MAX_PENDING)]
    with pytest.raises(TooManyRequests):
        session.ask("tasks/get", b"{}", timeout_s=1)
    session.receive(answer(ids[5], result=1))
    session.ask("tasks/get", b"{}", timeout_s=1)


def test_a_request_that_fits_no_frame_is_refused() -> None:
    session = V1RelaySession(prefix="p")
    with pytest.raises(PayloadTooLarge):
        session.ask("message/send", b'"%b"' % (b"x" * MAX_FRAME_BYTES), timeout_s=1)
    # And is none of those under way.
    for _ in range(MAX_PENDING):
        session.ask("tasks/get", b"{}", timeout_s=1)


def test_a_ping_is_for_the_owner_to_answer() -> None:
    assert V1RelaySession(prefix="p").receive('{"type":"ping"}') == Pinged()


def test_frames_after_garbage_do_not_count() -> None:
    session = V1RelaySession(prefix="p")
    id, _ = session.ask("tasks/get", b"{}", timeout_s=30)
    session.receive("garbage")
    assert session.closing is not None
    assert session.receive(answer(id, result=1)) is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", BAD_FRAME),
        ("{}", BAD_FRAME),
        ('{"type":"auth"}', BAD_FRAME),
        ('{"type":"auth","token":7}', BAD_FRAME),
        ('{"type":"hello","token":"x"}', BAD_FRAME),
        (b"\xff", BAD_FRAME),
        (b" " * (MAX_FRAME_BYTES + 1), TOO_LARGE),
    ],
)
def test_the_first_frame_is_auth(message: str | bytes, code: int) -> None:
    with pytest.raises(Violation) as violation:
        read_auth(message)
    assert violation.value.close.code == code


def test_auth_may_say_more_than_is_known() -> None:
    auth = read_auth('{"type":"auth","token":"a.b","agent_card":{"name":"H"},"more":[]}')
    assert auth.token == "a.b"
    assert bytes(auth.agent_card) == b'{"name":"H"}'
