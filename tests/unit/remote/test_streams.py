"""The events of one connection, however their peer writes the envelopes of JSON-RPC."""

import json
from typing import Any

import pytest

from trunkline.model.errors import ContentTypeNotSupported
from trunkline.model.values import TaskArtifactUpdateEvent
from trunkline.protocol import rest
from trunkline.protocol.client_responses import StreamItem
from trunkline.protocol.versions import Version
from trunkline.remote.deduplication import Seen
from trunkline.remote.errors import BadPeerAnswer, PeerRefused
from trunkline.remote.interfaces import Endpoint
from trunkline.remote.responses import ResponseReader
from trunkline.remote.streams import EventReader
from trunkline.testing import FakeClock

JSONRPC = Endpoint(binding="JSONRPC", version=Version.V1_0, url="http://x/rpc")


def events(endpoint: Endpoint = JSONRPC, *, max_event_bytes: int = 10_000) -> EventReader:
    reader = ResponseReader(FakeClock(), lambda: ())
    return EventReader(
        endpoint,
        b'"7"',
        reader,
        Seen(),
        overlap=None,
        is_resumed=False,
        max_event_bytes=max_event_bytes,
    )


def piece(text: str) -> dict[str, Any]:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    update = {"taskId": "t", "contextId": "c", "artifact": artifact, "append": True}
    return {"artifactUpdate": update}


def frame(*members: tuple[str, object]) -> bytes:
    pairs = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members)
    return b"data: {%b}\n\n" % pairs.encode()


def usual(text: str) -> bytes:
    return frame(("jsonrpc", "2.0"), ("id", "7"), ("result", piece(text)))


def texts(items: list[StreamItem]) -> list[str]:
    return [
        item.artifact.parts[0].text or ""
        for item in items
        if isinstance(item, TaskArtifactUpdateEvent)
    ]


def test_envelopes_may_be_written_in_any_way_and_change_it() -> None:
    frames = [
        usual("1"),
        usual("2"),
        frame(("id", "7"), ("jsonrpc", "2.0"), ("result", piece("3"))),
        frame(("result", piece("4")), ("jsonrpc", "2.0"), ("id", "7")),
        usual("5"),
        frame(("jsonrpc", "2.0"), ("id", "7"), ("result", piece("6")), ("extra", {"a": "}"})),
        b'data: { "jsonrpc": "2.0", "id": "7",\ndata: "result": %b }\n\n'
        % json.dumps(piece("7")).encode(),
        usual("8}"),
    ]
    read = events()
    assert texts([item for one in frames for item in read.read(one)]) == [*"1234567", "8}"]
    assert texts(list(events().read(b"".join(frames)))) == [*"1234567", "8}"]


@pytest.mark.parametrize("result", [None, {}, piece("no")], ids=["null", "empty", "piece"])
def test_an_error_is_one_wherever_it_stands(result: object) -> None:
    read = events()
    assert texts(list(read.read(usual("1")))) == ["1"]
    error = {"code": -32001, "message": "it is gone"}
    with pytest.raises(PeerRefused, match="it is gone"):
        list(
            read.read(frame(("jsonrpc", "2.0"), ("id", "7"), ("result", result), ("error", error)))
        )


@pytest.mark.parametrize(
    "bad",
    [
        frame(("jsonrpc", "2.0"), ("id", "8"), ("result", piece("other id"))),
        frame(("jsonrpc", "2.0"), ("id", "7"), ("result", piece("x")), ("id", "8")),
        frame(("jsonrpc", "2.0"), ("id", "7"), ("result", {"what": 1})),
        usual("x").replace(b"}\n", b"}}\n"),
        usual("x").replace(b"}\n", b"\n"),
        frame(("jsonrpc", "2.0"), ("id", "7")),
    ],
    ids=["other-id", "two-ids", "no-item", "too-long", "too-short", "no-result"],
)
def test_what_makes_no_sense_is_refused_after_any_number_that_did(bad: bytes) -> None:
    read = events()
    assert texts(list(read.read(usual("1") + usual("2")))) == ["1", "2"]
    items = read.read(usual("3") + bad)
    assert texts([next(items)]) == ["3"]
    with pytest.raises(BadPeerAnswer):
        next(items)


def test_events_without_an_envelope() -> None:
    endpoint = Endpoint(binding="HTTP+JSON", version=Version.V1_0, url="http://x")
    frames = b"".join(b"data: %b\n\n" % json.dumps(piece(text)).encode() for text in "123")
    assert texts(list(events(endpoint).read(frames))) == ["1", "2", "3"]


def test_an_event_that_is_too_large() -> None:
    read = events(max_event_bytes=500)
    assert texts(list(read.read(usual("1")))) == ["1"]
    with pytest.raises(BadPeerAnswer, match="larger than 500 bytes"):
        list(read.read(usual("x" * 500)))


@pytest.mark.parametrize("version", list(Version))
def test_over_http_json_an_event_named_error_is_a_refusal(version: Version) -> None:
    """As a2a-sdk, @a2a-js/sdk and the gateway itself write it in either version."""
    read = events(Endpoint(binding="HTTP+JSON", version=version, url="http://x"))
    with pytest.raises(PeerRefused, match="nothing for you") as refused:
        list(read.read(rest.error_frame(ContentTypeNotSupported("nothing for you"), version)))
    assert (refused.value.code, refused.value.reason) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED")


def test_over_jsonrpc_an_error_may_have_a_name_or_none() -> None:
    error = frame(("jsonrpc", "2.0"), ("id", "7"), ("error", {"code": -32001, "message": "gone"}))
    for one in (error, b"event: error\n" + error):
        with pytest.raises(PeerRefused, match="gone"):
            list(events().read(one))
