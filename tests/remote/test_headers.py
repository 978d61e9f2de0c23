"""The headers of a call, as they are on the wire: each once, however it is spelled."""

import asyncio
import json

import pytest
from tests.remote.http.peer import Handler, Peer, answer, peer

from trunkline.remote import Agents, ApiKey, Bearer, InvalidTarget, Target, connect

CARD = {
    "name": "Agent",
    "description": "Answers.",
    "version": "1",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
}
REPLY = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}


def agent() -> Handler:
    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        if head.startswith(b"GET"):
            host = head.partition(b"Host: ")[2].partition(b"\r\n")[0].decode()
            endpoint = {
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
                "url": f"http://{host}",
            }
            said: object = {**CARD, "supportedInterfaces": [endpoint]}
        else:
            said = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": REPLY}
        writer.write(answer(json.dumps(said).encode(), b"Content-Type: application/json"))

    return handle


def sent(one: Peer) -> dict[str, list[str]]:
    """The headers of the last request, by their names in lower case."""
    found: dict[str, list[str]] = {}
    for line in one.requests[-1].decode().partition("\r\n\r\n")[0].split("\r\n")[1:]:
        name, _, value = line.partition(": ")
        found.setdefault(name.lower(), []).append(value)
    return found


async def test_a_header_that_is_spelled_otherwise_is_not_sent_twice() -> None:
    async with peer(agent()) as one, Agents() as agents:
        target = Target(url=one.url, headers={"X-Team": "a"}, credentials=Bearer("of-the-target"))
        given = {"x-team": "b", "authorization": "Bearer other", "a2a-version": "0.3"}
        await agents.at(target, headers=given).send("hello")
        headers = sent(one)
    assert headers["x-team"] == ["b"]
    assert headers["authorization"] == ["Bearer of-the-target"]
    assert headers["a2a-version"] == ["1.0"]


async def test_a_key_takes_the_place_of_a_header_of_its_target() -> None:
    async with peer(agent()) as one:
        target = Target(
            url=one.url, headers={"x-api-key": "old"}, credentials=ApiKey(key="of-the-target")
        )
        async with connect(target, headers={"X-TEAM": "b", "X-API-KEY": "given"}) as called:
            await called.send("hello")
        headers = sent(one)
    assert headers["x-api-key"] == ["of-the-target"]
    assert headers["x-team"] == ["b"]


@pytest.mark.parametrize(
    "target",
    [
        Target(url="http://127.0.0.1:9/\udcff"),
        Target(url="http://127.0.0.1:9", headers={"X-Team": "\udcff"}),
        Target(url="http://127.0.0.1:9", credentials=Bearer("\udcff")),
    ],
    ids=["url", "header", "token"],
)
async def test_what_cannot_be_written_is_the_fault_of_the_target(target: Target) -> None:
    with pytest.raises(InvalidTarget):
        async with connect(target) as called:
            await called.send("hello")
