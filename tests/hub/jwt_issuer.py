"""An issuer of tokens for tests: keys, tokens, and a server of its JWK Set on loopback."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

ISSUER = "https://issuer.example"
AUDIENCE = "https://gateway.example"

_RSA = RSAKey.generate_key(2048, {"kid": "rsa"})


class Issuer:
    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "rsa": _RSA,
            "ec": ECKey.generate_key("P-256", {"kid": "ec"}),
            "ed": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
        }
        self.url = ""
        self.asked = 0
        self.status = 200
        self.body: bytes | None = None

    def jwks(self) -> bytes:
        return json.dumps(KeySet([*self.keys.values()]).as_dict(private=False)).encode()

    def token(
        self, claims: Mapping[str, Any], *, key: str = "ec", alg: str = "ES256", **header: Any
    ) -> str:
        head = {"alg": alg, "kid": key, **header}
        signed = f"{part(head)}.{part(dict(claims))}"
        signature = JWSRegistry.algorithms[alg].sign(signed.encode(), self.keys[key])
        return f"{signed}.{part(signature)}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        body = self.jwks() if self.body is None else self.body
        head = f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        await writer.drain()
        writer.close()


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@asynccontextmanager
async def serving_keys() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    server = await asyncio.start_server(issuer._serve, "127.0.0.1", 0)
    issuer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks"
    try:
        yield issuer
    finally:
        server.close()
        await server.wait_closed()
