"""Signed cards on their way: only what was signed is called."""

import json
import subprocess
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from a2a.types import AgentCard as SdkCard
from a2a.utils.signing import ProtectedHeader, create_agent_card_signer
from joserfc.jwk import OKPKey
from jwt.api_jwk import PyJWK
from tests.acceptance.gateway import DEADLINE_S
from tests.acceptance.raw_peer import DONE, Asked, RawPeer, raw_peer, result
from tests.acceptance.remote import ask
from tests.acceptance.test_js_sdk import FOLDER, INSTALLED
from tests.unit.protocol import reference

from trunkline.model.values import Task
from trunkline.protocol import card_reading, cards
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


def signed_in_javascript(card: dict[str, Any]) -> dict[str, Any]:
    key = json.dumps(KEY.as_dict(private=True) | {"alg": "EdDSA"})
    run = subprocess.run(
        ["node", FOLDER / "signatures.mjs", "sign", key],
        input=json.dumps(card),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    made: dict[str, Any] = json.loads(run.stdout)
    return made


Sign: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
SIGNERS: list[Any] = [
    pytest.param(signed, id="a2a-sdk"),
    pytest.param(
        signed_in_javascript,
        id="a2a-js",
        marks=pytest.mark.skipif(
            not INSTALLED.exists(), reason="@a2a-js/sdk is missing: ./check javascript"
        ),
    ),
]
BEARER: dict[str, Any] = {
    "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
    "securityRequirements": [{"schemes": {"bearer": {}}}],
}


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


@pytest.mark.parametrize("sign", SIGNERS)
@pytest.mark.parametrize("needs", [{}, BEARER], ids=["open", "locked"])
@pytest.mark.parametrize("form", ["1.0", "hybrid"])
async def test_a_card_by_an_official_signer_is_called_by(
    sign: Sign, needs: dict[str, Any], form: cards.Form
) -> None:
    """As it was signed, and with the members of 0.3 beside it, as the SDKs serve it."""
    async with raw_peer(completes) as peer, strict(peer) as agent:
        tree = described(peer) | needs
        tree["supportedInterfaces"] = [peer.interface(), peer.interface() | V03]
        # What the signers leave out when it is empty.
        tree["skills"] = [{"id": "s", "name": "S", "description": "", "tags": []}]
        made = json.dumps(sign(tree)).encode()
        peer.card = json.loads(made)
        if form == "hybrid":
            both = json.loads(cards.encode(card_reading.decode(made), "hybrid"))
            peer.card = both | {"skills": peer.card["skills"]}
            assert "url" in peer.card
        assert signers(await agent.card()) == ("2026",)
        assert isinstance(await agent.send(ask("hi")), Task)


V03 = {"protocolVersion": "0.3"}


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
