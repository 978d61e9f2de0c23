"""Credentials: bearer token, API key or OAuth client, each for one target only."""

import base64
from typing import Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from trunkline.config.called_agents import (
    ApiKeyCredentials,
    BearerCredentials,
    CredentialSettings,
    OAuth2Credentials,
)

MASK: Final = "***"


class Bearer(Struct, frozen=True):
    token: str

    def __repr__(self) -> str:
        return f"Bearer({MASK})"


class ApiKey(Struct, frozen=True, kw_only=True):
    key: str
    header: str = "X-API-Key"

    def __repr__(self) -> str:
        return f"ApiKey({self.header}: {MASK})"


class ClientCredentials(Struct, frozen=True, kw_only=True):
    """OAuth 2: a token for the client itself, fetched when needed and kept while it is valid."""

    token_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()
    audience: str = ""

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


def header_of(credentials: Credentials | None) -> tuple[str, ...]:
    """The name of the header that carries them, if there are any."""
    match credentials:
        case ApiKey(header=header):
            return (header,)
        case Bearer() | ClientCredentials():
            return ("Authorization",)
        case None:
            return ()


def secrets_of(credentials: Credentials | None) -> tuple[str, ...]:
    match credentials:
        case Bearer():
            return (credentials.token,)
        case ApiKey():
            return (credentials.key,)
        case ClientCredentials():
            return credentials.client_secret, credentials.basic().removeprefix("Basic ")
        case None:
            return ()


def credentials_of(given: CredentialSettings | None) -> Credentials | None:
    match given:
        case BearerCredentials():
            return Bearer(given.token.reveal())
        case ApiKeyCredentials():
            return ApiKey(key=given.key.reveal(), header=given.header)
        case OAuth2Credentials():
            return ClientCredentials(
                token_url=given.token_url,
                client_id=given.client_id,
                client_secret=given.client_secret.reveal(),
                scopes=given.scopes,
                audience=given.audience,
            )
        case None:
            return None
