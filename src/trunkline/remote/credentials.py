"""Credentials: bearer token, API key or OAuth client, each for one target only."""

import base64
from typing import ClassVar, Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from trunkline.config import called_agents

MASK: Final = "***"


class Bearer(Struct, frozen=True):
    header: ClassVar[str] = "Authorization"
    token: str

    def headers(self) -> dict[str, str]:
        return {self.header: f"Bearer {self.token}"}

    def secrets(self) -> tuple[str, ...]:
        return (self.token,)

    def __repr__(self) -> str:
        return f"Bearer({MASK})"


class ApiKey(Struct, frozen=True, kw_only=True):
    key: str
    header: str = "X-API-Key"

    def headers(self) -> dict[str, str]:
        return {self.header: self.key}

    def secrets(self) -> tuple[str, ...]:
        return (self.key,)

    def __repr__(self) -> str:
        return f"ApiKey({self.header}: {MASK})"


class ClientCredentials(Struct, frozen=True, kw_only=True):
    """OAuth 2: a token for the client itself, fetched when needed and kept while it is valid."""

    header: ClassVar[str] = "Authorization"
    token_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()
    audience: str = ""

    def headers(self) -> dict[str, str]:
        """Empty: the header holds the token, once it is fetched."""
        return {}

    def secrets(self) -> tuple[str, ...]:
        return self.client_secret, self.basic().removeprefix("Basic ")

    def __repr__(self) -> str:
        return f"ClientCredentials({self.client_id} at {self.token_url}, {MASK})"

    def form(self) -> dict[str, str]:
        form = {"grant_type": "client_credentials"}
        if self.scopes:
            form["scope"] = " ".join(self.scopes)
        if self.audience:
            form["audience"] = self.audience
        return form

    def basic(self) -> str:
        # RFC 6749, 2.3.1: both are form-encoded before they are joined.
        pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
        return "Basic " + base64.b64encode(pair.encode()).decode()


Credentials: TypeAlias = Bearer | ApiKey | ClientCredentials


def credentials_of(given: called_agents.CredentialSettings | None) -> Credentials | None:
    match given:
        case called_agents.BearerCredentials():
            return Bearer(given.token.reveal())
        case called_agents.ApiKeyCredentials():
            return ApiKey(key=given.key.reveal(), header=given.header)
        case called_agents.OAuth2Credentials():
            return ClientCredentials(
                token_url=given.token_url,
                client_id=given.client_id,
                client_secret=given.client_secret.reveal(),
                scopes=given.scopes,
                audience=given.audience,
            )
        case None:
            return None
