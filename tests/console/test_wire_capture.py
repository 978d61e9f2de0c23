"""What is recorded of requests to an agent, over every binding and for every caller."""

import json
from typing import Any

import pytest
from tests.bindings.asgi import Asgi, Http
from tests.bindings.clients import CLIENTS, Refused, message
from tests.bindings.world import HANDLE, KEYS, open_world

from trunkline.console.wire.log import Wanted, WireLog
from trunkline.ports.wire_log import WireRecord


def all_of(log: WireLog) -> list[WireRecord]:
    found = [log.find(id) for id in log.ids(Wanted())]
    return [record for record in found if record is not None]


@pytest.fixture(params=list(CLIENTS))
def dialect(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_a_send_is_recorded_as_it_came_and_as_it_was_answered(dialect: str) -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        client = world.client(dialect)
        await client.run("hello")
        assert all_of(wire.log) == []
        wire.control.record(HANDLE)
        request = client.request("SendMessage", {"message": message("hello", id="second")})
        answer = await world.http.send(request)
        (record,) = all_of(wire.log)
        assert (record.side, record.operation) == ("server", "SendMessage")
        assert (record.binding, record.version) == (client.binding, client.version)
        assert isinstance(request.body, bytes)
        assert record.request_body.text == request.body.decode()
        assert record.request_body.size == len(request.body)
        assert record.response_body.text == answer.body.decode()
        assert (record.status, record.principal) == (200, "alice")
        task = client.result("SendMessage", answer)["task"]
        assert (record.task_id, record.context_id) == (task["id"], task["contextId"])
        assert ["authorization", "Bearer ***"] in record.request_headers
        assert KEYS["alice"] not in str(record)
        headers = {name: value for name, value in record.response_headers}
        assert headers == answer.headers
        assert (record.ms, record.error, record.fault) == (0, "", "")
        wire.control.stop(HANDLE)
        await client.run("hello")
        assert len(all_of(wire.log)) == 1


async def test_the_events_of_a_stream_are_recorded_as_they_were_written(dialect: str) -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE)
        client = world.client(dialect)
        async with client.stream("stream 3") as stream:
            events = await stream.rest()
        (record,) = all_of(wire.log)
        assert record.operation == "SendStreamingMessage"
        frames = [frame for frame in record.frames if frame.event_id]
        assert [frame.event_id for frame in frames] == [str(e.id) for e in events]
        sent = [json.loads(frame.data.partition("data: ")[2]) for frame in frames]
        assert [client.unwrapped(each) for each in sent] == [event.raw for event in events]
        assert record.events == len(events)
        assert {frame.direction for frame in frames} == {"out"}
        assert record.task_id == events[0].value["id"]
        assert record.response_bytes == sum(frame.size for frame in record.frames)


async def test_an_open_stream_is_seen_while_it_is_open() -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE)
        client = world.client("jsonrpc-1.0")
        async with client.stream("wait 60") as stream:
            await stream.until("TASK_STATE_WORKING")
            (record,) = all_of(wire.log)
            assert (record.ms, record.status) == (None, 200)
            assert record.operation == "SendStreamingMessage"
            assert record.task_id
            await world.clock.advance(1)
            stream.leave()
            await world.clock.advance(60)
        (record,) = all_of(wire.log)
        assert record.ms is not None


async def test_refusals_are_recorded(dialect: str) -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE)
        with pytest.raises(Refused):
            await world.client(dialect, "nobody-s-wrong-key").run("hello")
        with pytest.raises(Refused):
            await world.client(dialect).get("no-such-task")
        unknown, absent = all_of(wire.log)
        assert (unknown.status, unknown.principal) == (401, "")
        assert "wrong-key" not in str(unknown)
        assert absent.task_id == "no-such-task"
        assert absent.operation == "GetTask"


async def test_the_card_is_recorded() -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE)
        path = world.gateway.endpoints[0].card_paths[0]
        answer = await world.http.send(Http(method="GET", path=path))
        (record,) = all_of(wire.log)
        assert (record.operation, record.binding) == ("GetAgentCard", "http")
        assert record.response_body.text == answer.body.decode()


async def test_a_body_that_is_no_json_and_no_text() -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE)
        body = b'\xff\xfe\x00{"token":"x"}'
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEYS['alice']}"}
        await world.http.send(Http(path="/a2a/jsonrpc", headers=headers, body=[body, b"\x80"]))
        (record,) = all_of(wire.log)
        assert record.request_body.base64
        assert record.request_body.size == len(body) + 1
        assert record.operation == ""


async def test_a_large_body_is_cut_and_its_size_is_told() -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE)
        client = world.client("jsonrpc-1.0")
        text = "say " + "ä" * 400_000
        await client.run(text)
        (record,) = all_of(wire.log)
        assert record.truncated
        assert record.request_body.size > 800_000
        kept = record.request_body.text
        assert isinstance(kept, str)
        assert 200_000 < len(kept.encode()) <= 256 * 1024
        assert record.operation == "SendMessage"


async def test_an_error_of_the_recording_does_not_touch_the_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE)

        def fail(*_: Any, **__: Any) -> Any:
            raise ValueError("no")

        for name in ("body", "header"):
            with monkeypatch.context() as patched:
                patched.setattr(wire.log._masker, name, fail)
                client = world.client("jsonrpc-1.0")
                assert (await client.run("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"
                async with client.stream("stream 3") as stream:
                    assert len(await stream.rest()) == 6
        assert "could not be recorded" in caplog.text
        await world.client("jsonrpc-1.0").run("hello")
        assert all_of(wire.log)[-1].task_id


async def test_an_agent_that_is_published_anew_is_recorded_further() -> None:
    async with open_world() as world:
        gateway = world.gateway
        gateway.wire.control.record(HANDLE)
        await world.client("jsonrpc-1.0").run("hello")
        await gateway.directory.publish(
            "test/other", {"name": "Other", "backend": {"kind": "echo"}}
        )
        gateway.wire.control.record("test/other")
        table = {"name": "Other", "backend": {"kind": "echo"}}
        await gateway.directory.publish("test/other", table, replace=True)
        await world.client("jsonrpc-1.0", agent="test/other").run("hello")
        await gateway.directory.withdraw("test/other", grace_s=0)
        await gateway.directory.publish("test/other", table)
        await world.client("rest-1.0", agent="test/other").run("hello")
        assert [each.agent for each in all_of(gateway.wire.log)] == [
            HANDLE,
            "test/other",
            "test/other",
        ]


async def test_a_recording_of_some_minutes_ends_by_itself() -> None:
    async with open_world() as world:
        wire = world.gateway.wire
        wire.control.record(HANDLE, minutes=5)
        client = world.client("jsonrpc-1.0")
        await client.run("hello")
        await world.clock.advance(299)
        await client.run("hello")
        await world.clock.advance(2)
        await client.run("hello")
        assert len(all_of(wire.log)) == 2
        assert world.gateway.endpoints[0].tap is None
        wire.control.record(HANDLE, minutes=1)
        wire.control.record(HANDLE)
        await world.clock.advance(120)
        await client.run("hello")
        assert len(all_of(wire.log)) == 3


async def test_observers_learn_of_the_beginning_and_the_end() -> None:
    async with open_world() as world:
        wire, told = world.gateway.wire, []
        wire.control.record(HANDLE)

        def fail(_: object) -> None:
            raise ValueError("no")

        forget = wire.log.subscribe(fail)
        end = wire.log.subscribe(lambda summary: told.append((summary.id, summary.ms)))
        await world.client("jsonrpc-1.0").run("hello")
        forget()
        assert [ms for _, ms in told] == [None, 0]
        assert len({id for id, _ in told}) == 1
        end()
        await world.client("jsonrpc-1.0").run("hello")
        assert len(told) == 2


async def test_another_asgi_server_is_recorded_as_well() -> None:
    async with open_world() as world:
        world.gateway.wire.control.record(HANDLE)
        http = Asgi(world.gateway.application)
        client = CLIENTS["rest-1.0"](http, key=KEYS["bob"])
        await client.run("hello")
        (record,) = all_of(world.gateway.wire.log)
        assert (record.principal, record.peer) == ("bob", "127.0.0.1")
