"""Signed cards on their way: only what was signed is called."""

import json
from typing import Any

import pytest
from a2a.types import AgentCard as SdkCard
from a2a.utils.signing import ProtectedHeader, create_agent_card_signer
from joserfc.jwk import OKPKey
from jwt.api_jwk import PyJWK
from tests.acceptance.raw_peer import DONE, Asked, RawPeer, raw_peer, result
from tests.acceptance.remote import ask
from tests.unit.protocol import reference

from trunkline.model.values import Task
from trunkline.remote import BadPeerAnswer, RemoteAgent, Target, connect, signers

KEY = OKPKey.generate_key("Ed25519", {"kid": "2026"})
PUBLIC = json.dumps(KEY.as_dict(private=False))


async def completes(asked: Asked, writer: Any) -> None:
    if asked.rpc == "GetExtendedAgentCard":
        writer.write(result(asked, extended))
    else:
        writer.write(result(asked, {"task": DONE}))


extended: dict[str, Any] = {}


def signed(card: dict[str, Any]) -> dict[str, Any]:
    header = ProtectedHeader(kid="2026", alg="EdDSA", jku="http://127.0.0.1:9/", typ="JOSE")
    sign = create_agent_card_signer(PyJWK(KEY.as_dict(private=True), "EdDSA"), header)
    message = sign(reference.read(json.dumps(card).encode(), SdkCard()))
    made: dict[str, Any] = reference.write(message)
    return made


def described(peer: RawPeer) -> dict[str, Any]:
    return {
        "name": "Signed",
        "description": "d",
        "version": "1",
        "supportedInterfaces": [peer.interface()],
        "capabilities": {"streaming": False, "extendedAgentCard": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
    }


def strict(peer: RawPeer) -> RemoteAgent:
    return connect(Target(url=peer.url, card_keys=(PUBLIC,), require_signature=True))


async def test_a_signed_card_is_called_by() -> None:
    async with raw_peer(completes) as peer, strict(peer) as agent:
        peer.card = signed(described(peer))
        assert signers(await agent.card()) == ("2026",)
        assert isinstance(await agent.send(ask("hi")), Task)
        extended.update(signed(described(peer) | {"name": "More"}))
        assert (await agent.extended_card()).name == "More"
        extended["name"] = "Changed"
        with pytest.raises(BadPeerAnswer) as bad:
            await agent.extended_card()
        assert bad.value.reason == "BAD_SIGNATURE"


async def test_nothing_is_sent_by_a_card_that_was_changed() -> None:
    async with raw_peer(completes) as peer, strict(peer) as agent:
        elsewhere = peer.interface(path="/elsewhere")
        peer.card = signed(described(peer)) | {"supportedInterfaces": [elsewhere]}
        for call in (agent.card(), agent.send(ask("hi")), agent.get("t")):
            with pytest.raises(BadPeerAnswer, match='not what the key "2026" signed') as bad:
                await call
            assert bad.value.reason == "BAD_SIGNATURE"
        assert {asked.path for asked in peer.asked} == {"/.well-known/agent-card.json"}


async def test_an_interface_that_was_put_beside_the_signed_ones_is_not_called() -> None:
    async with raw_peer(completes) as peer, strict(peer) as agent:
        peer.card = signed(described(peer)) | {"url": peer.url + "/elsewhere"}
        await agent.send(ask("hi"))
        assert peer.asked[-1].path == "/rpc"
        assert len((await agent.card()).supported_interfaces) == 1
