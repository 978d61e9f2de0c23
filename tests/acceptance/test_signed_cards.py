"""Cards that the gateway signs, checked by our client and by both official SDKs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client.card_resolver import A2ACardResolver
from a2a.utils.signing import create_signature_verifier
from joserfc.jwk import ECKey, OKPKey, RSAKey
from jwt.api_jwk import PyJWK
from tests.acceptance.conftest import ALICE_KEY, KEYS, Make
from tests.acceptance.gateway import DEADLINE_S, Gateway, http_client
from tests.acceptance.remote import ask
from tests.acceptance.test_js_sdk import FOLDER, INSTALLED

from trunkline.model.values import Task
from trunkline.remote import BadPeerAnswer, Bearer, Target, connect, signers

ALGORITHMS: dict[str, OKPKey | ECKey | RSAKey] = {
    "EdDSA": OKPKey.generate_key("Ed25519"),
    "ES256": ECKey.generate_key("P-256"),
    "RS256": RSAKey.generate_key(2048),
}


# A gateway that requires keys says so on its cards: `securityRequirements` without scopes.
REQUIRED = {"open": "loopback", "locked": "never"}


def signing(
    make: Make, tmp_path: Path, key: OKPKey | ECKey | RSAKey, *, anonymous: str = "loopback"
) -> Gateway:
    (tmp_path / "card.pem").write_bytes(key.as_pem(private=True))
    server = f'[server]\ncard_key_path = "{tmp_path / "card.pem"}"'
    return make(f'{server}\n[auth]\nanonymous = "{anonymous}"\n{KEYS}').start()


async def fetched(url: str) -> Any:
    async with http_client() as http:
        response = await http.get(url)
        response.raise_for_status()
        return response.json()


@pytest.mark.parametrize("anonymous", REQUIRED.values(), ids=REQUIRED)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_signed_card_is_good_for_us_and_for_the_sdk(
    make: Make, tmp_path: Path, algorithm: str, anonymous: str
) -> None:
    gateway = signing(make, tmp_path, ALGORITHMS[algorithm], anonymous=anonymous)
    jwks = await fetched(f"{gateway.url}/.well-known/jwks.json")
    [key] = jwks["keys"]
    assert (key["alg"], key["use"], "d" in key) == (algorithm, "sig", False)
    target = Target(
        url=gateway.agent_url("test/extended"),
        card_keys=(json.dumps(jwks),),
        require_signature=True,
        credentials=Bearer(ALICE_KEY),
    )
    async with connect(target) as agent:
        assert set(signers(await agent.card())) == {key["kid"]}
        extended = await agent.extended_card()
        assert extended.description == "What only customers may know"
        assert set(signers(extended)) == {key["kid"]}
        assert isinstance(await agent.send(ask("say hi")), Task)
    verify = create_signature_verifier(lambda kid, jku: PyJWK(key, algorithm), [algorithm])
    async with http_client() as http:
        for headers in ({"A2A-Version": "1.0"}, {}):
            resolver = A2ACardResolver(http, gateway.url)
            card = await resolver.get_agent_card(
                http_kwargs={"headers": headers}, signature_verifier=verify
            )
            assert card.name == "Scripted"
            assert bool(card.security_requirements) is (anonymous == "never")


@pytest.mark.skipif(not INSTALLED.exists(), reason="@a2a-js/sdk is missing: ./check javascript")
@pytest.mark.parametrize("anonymous", REQUIRED.values(), ids=REQUIRED)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signed_card_is_good_for_the_javascript_sdk(
    make: Make, tmp_path: Path, algorithm: str, anonymous: str
) -> None:
    gateway = signing(make, tmp_path, ALGORITHMS[algorithm], anonymous=anonymous)
    jwks = httpx.get(f"{gateway.url}/.well-known/jwks.json").text
    run = subprocess.run(
        ["node", FOLDER / "signatures.mjs", "verify", gateway.url, jwks],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert run.returncode == 0, run.stderr
    requirements = 2 if anonymous == "never" else 0
    # The SDK prints a line for each signature that is not for it.
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "as 1.0": requirements,
        "as both versions": requirements,
        "resolved": requirements,
    }


async def test_the_card_of_0_3_has_no_signature_of_another(make: Make, tmp_path: Path) -> None:
    gateway = signing(make, tmp_path, ALGORITHMS["EdDSA"])
    card = await fetched(f"{gateway.url}/.well-known/agent-card.json?format=0.3")
    assert "signatures" not in card


async def test_a_card_by_another_key_is_refused(make: Make, tmp_path: Path) -> None:
    gateway = signing(make, tmp_path, ALGORITHMS["EdDSA"])
    other = json.dumps(OKPKey.generate_key("Ed25519").as_dict(private=False))
    target = Target(url=gateway.url, card_keys=(other,), require_signature=True)
    async with connect(target) as agent:
        with pytest.raises(BadPeerAnswer, match="none of its signatures"):
            await agent.send(ask("say hi"))


async def test_without_a_key_there_is_no_set_of_them(shared: Gateway) -> None:
    async with http_client() as http:
        assert (await http.get(f"{shared.url}/.well-known/jwks.json")).status_code == 404
