import json
from typing import Any

import pytest
from msgspec import Raw

from trunkline.protocol.relay.close_codes import (
    BAD_FRAME,
    FATAL,
    FORBIDDEN,
    SILENT,
    TOO_LARGE,
)
from trunkline.protocol.relay.v1 import frames as v1
from trunkline.protocol.relay.v1.agent_session import (
    GREETING_S,
    PING_S,
    Asked,
    Greeted,
    V1AgentSession,
)


def new_session() -> V1AgentSession:
    return V1AgentSession(agent="acme/helper", token="a.b.c", card=b'{"name":"H"}', now=0.0)


def told(session: V1AgentSession) -> list[dict[str, Any]]:
    return [json.loads(message) for message in session.take_output()]


def greeted() -> V1AgentSession:
    session = new_session()
    session.receive('{"type":"auth_ok","agent_id":"helper","tenant":"acme"}')
    session.take_events()
    session.take_output()
    return session


def request(id: str = "1", **payload: Any) -> str:
    return json.dumps({"type": "a2a.request", "payload": {"id": id, **payload}})


def test_the_first_frame_has_the_token_and_the_card() -> None:
    session = new_session()
    (frame,) = told(session)
    assert frame == {
        "type": "auth",
        "token": "a.b.c",
        "tenant": "acme",
        "agent_id": "helper",
        "agent_card": {"name": "H"},
    }


def test_the_relay_takes_the_agent() -> None:
    session = new_session()
    session.receive(b'{"type":"auth_ok","agent_id":"helper","tenant":"acme","more":1}')
    assert session.take_events() == [Greeted("acme/helper")]
    assert session.is_greeted


def test_a_relay_that_takes_another_agent_is_left() -> None:
    session = new_session()
    session.receive('{"type":"auth_ok","agent_id":"other","tenant":"acme"}')
    assert session.closing is not None
    assert session.closing.code == FORBIDDEN
    assert not session.take_events()


@pytest.mark.parametrize(
    ("kind", "message", "is_fatal"),
    [
        ("error", "invalid token", True),
        ("error", "token missing required agent_id claim", True),
        ("error", "missing tenant in token", True),
        ("auth_error", "Unauthorized", True),
        ("error", "auth required", False),
        ("error", "expected auth message", False),
        ("error", "internal error", False),
        ("error", "", False),
    ],
)
def test_an_error_ends_the_greeting_and_only_a_bad_token_for_good(
    kind: str, message: str, is_fatal: bool
) -> None:
    session = new_session()
    session.receive(json.dumps({"type": kind, "message": message}))
    assert session.closing is not None
    assert (session.closing.code in FATAL) is is_fatal
    assert message in session.closing.reason


def test_a_later_error_is_no_refusal_of_the_token() -> None:
    session = greeted()
    session.receive('{"type":"error","message":"token cache is full"}')
    assert session.closing is None
    assert session.trouble == "the relay says: token cache is full"


def test_an_error_with_a_long_text_still_fits_a_close_frame() -> None:
    session = new_session()
    session.receive(json.dumps({"type": "error", "message": "token é" * 500}))
    assert session.closing is not None
    assert len(session.closing.reason.encode()) <= 123


def test_requests_come_in_order_and_are_answered_by_their_ids() -> None:
    session = greeted()
    for id in ("b", "a"):
        session.receive(request(id, method="message/send", params={"x": [1]}, timeout_ms=5))
    first, second = session.take_events()
    assert isinstance(first, Asked)
    assert isinstance(second, Asked)
    assert (first.request.id, second.request.id) == ("b", "a")
    assert bytes(first.request.params) == b'{"x": [1]}'
    assert first.request.timeout_ms == 5
    session.answer(v1.ResponsePayload(id="a", result=Raw(b'{"y":2}')))
    session.answer(v1.ResponsePayload(id="b", error=v1.ErrorPayload(-32001, "none")))
    assert told(session) == [
        {"type": "a2a.response", "payload": {"id": "a", "result": {"y": 2}}},
        {
            "type": "a2a.response",
            "payload": {"id": "b", "error": {"code": -32001, "message": "none"}},
        },
    ]
    assert not session.asked


def test_a_request_that_comes_twice_is_served_once() -> None:
    session = greeted()
    session.receive(request())
    session.receive(request())
    assert len(session.take_events()) == 1


def test_nothing_is_served_before_the_relay_has_taken_the_agent() -> None:
    session = new_session()
    session.receive(request())
    assert not session.take_events()
    assert not session.asked


@pytest.mark.parametrize("frame", ['{"type":"pong"}', '{"type":"stream_chunk"}', "{}"])
def test_frames_that_say_nothing_to_an_agent_are_passed_over(frame: str) -> None:
    session = greeted()
    session.receive(frame)
    assert session.closing is None
    assert not told(session)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "nothing",
        "[]",
        '"auth_ok"',
        '{"type":7}',
        '{"type":"a2a.request"}',
        '{"type":"a2a.request","payload":{"id":1}}',
        '{"type":"a2a.request","payload":{"id":"1","timeout_ms":-1}}',
        "[" * 100_000,
        b"\xff\xfe",
        '{"type":"\ud800"}',
    ],
    ids=repr,
)
def test_garbage_ends_the_connection_and_can_be_tried_again(message: str | bytes) -> None:
    session = greeted()
    session.receive(message)
    assert session.closing is not None
    assert session.closing.code == BAD_FRAME
    assert session.closing.code not in FATAL
    session.receive(request())
    assert not session.take_events()


def test_a_frame_that_is_too_large_ends_the_connection() -> None:
    session = greeted()
    session.receive(request(params="x" * v1.MAX_FRAME_BYTES))
    assert session.closing is not None
    assert session.closing.code == TOO_LARGE


def test_a_ping_is_answered() -> None:
    session = greeted()
    session.receive('{"type":"ping"}')
    assert told(session) == [{"type": "pong"}]


def test_a_relay_that_does_not_answer_the_first_frame_is_left() -> None:
    early, late = new_session(), new_session()
    early.tick(GREETING_S - 1)
    assert early.closing is None
    late.tick(GREETING_S)
    assert late.closing is not None
    assert late.closing.code == SILENT


def test_an_idle_connection_is_kept_busy() -> None:
    session = greeted()
    session.tick(PING_S - 1)
    assert not told(session)
    session.tick(PING_S)
    session.tick(PING_S + 1)
    assert told(session) == [{"type": "ping"}]
