"""Tokens of the hub, on a process and as its operator and its clients see them."""

import json
from typing import Any

import httpx
from tests.acceptance.command import Ended, Shell
from tests.acceptance.conftest import Make
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.raw import envelope, message_params

CONFIG = """
[hub]

[agents."test/echo"]
name = "Echo"
backend = { kind = "echo" }
"""


def token(gateway: Gateway, *words: str) -> Ended:
    data = str(gateway.folder / "data")
    return Shell(gateway.folder).run("token", *words, "--data", data)


async def asked(http: httpx.AsyncClient, gateway: Gateway, credential: str) -> httpx.Response:
    body = envelope("SendMessage", message_params("hello"))
    return await http.post(
        gateway.agent_url("test/echo"),
        json=body,
        headers={"Authorization": f"Bearer {credential}", "A2A-Version": "1.0"},
    )


async def test_an_operator_creates_and_revokes_tokens_of_a_running_gateway(make: Make) -> None:
    gateway = make(agents=CONFIG).start()
    created = token(gateway, "create", "ci", "--agent", "test/echo", "--expires", "1h")
    assert created.code == 0, created.err
    key = created.out.strip()
    words = ("ls", "--principal", "token:ci", "-o", "json")
    shown: dict[str, Any] = json.loads(token(gateway, *words).out)["items"][0]
    async with http_client() as http:
        assert (await asked(http, gateway, key)).status_code == 200
        # As a service does it with curl: -u ID:KEY -d grant_type=client_credentials
        answer = await http.post(
            f"{gateway.url}/api/v1/auth/oauth/token",
            data={"grant_type": "client_credentials"},
            auth=(shown["id"], key),
        )
        assert answer.status_code == 200, answer.text
        access = answer.json()["access_token"]
        assert (await asked(http, gateway, access)).status_code == 200
        revoked = token(gateway, "revoke", shown["prefix"])
        assert (revoked.code, revoked.err) == (0, "")
        # On the same connection.
        for credential in (key, access):
            refused = await asked(http, gateway, credential)
            assert refused.status_code == 401
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
    explained = token(gateway, "explain", shown["id"], "--agent", "test/echo")
    assert explained.out == "refused: The token is revoked.\n"
    assert key not in gateway.stderr + gateway.stdout


async def test_a_token_is_good_after_a_kill(make: Make) -> None:
    gateway = make(agents=CONFIG).start()
    keep = token(gateway, "create", "keep", "--agent", "*").out.strip()
    gone = token(gateway, "create", "gone", "--agent", "*", "-o", "json").out
    token(gateway, "revoke", json.loads(gone)["id"])
    gateway.kill()
    gateway.start()
    async with http_client() as http:
        assert (await asked(http, gateway, keep)).status_code == 200
        assert (await asked(http, gateway, json.loads(gone)["token"])).status_code == 401
    for file in (gateway.folder / "data").rglob("*"):
        assert not file.is_file() or keep[13:].encode() not in file.read_bytes()
