"""As whom the gateway calls a target."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from trunkline.settings.secret import Secret


class BearerCredentials(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="bearer"
):
    """A token, sent as `Authorization: Bearer …`."""

    token: Annotated[Secret, Meta(description='The token. Prefer `"${NAME_OF_VARIABLE}"`.')]


class ApiKeyCredentials(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="api-key"
):
    """A key, sent in its own header."""

    key: Annotated[Secret, Meta(description='The key. Prefer `"${NAME_OF_VARIABLE}"`.')]
    header: Annotated[str, Meta(description="Name of the header.")] = "X-API-Key"


class OAuth2Credentials(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="oauth2"
):
    """OAuth 2 client credentials: a token is fetched when needed and cached while it is valid."""

    token_url: Annotated[str, Meta(description="Token endpoint, http or https.")]
    client_id: Annotated[str, Meta(min_length=1, description="Client id at the token endpoint.")]
    client_secret: Annotated[
        Secret, Meta(description='Client secret. Prefer `"${NAME_OF_VARIABLE}"`.')
    ]
    scopes: Annotated[tuple[str, ...], Meta(description="Scopes to request.")] = ()
    audience: Annotated[
        str, Meta(description="Audience to request, if the endpoint needs one.")
    ] = ""


CredentialSettings: TypeAlias = BearerCredentials | ApiKeyCredentials | OAuth2Credentials
