"""As whom the gateway calls a target."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from trunkline.settings.secret import Secret


class BearerCredentials(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="bearer"
):
    """A token that is sent as `Authorization: Bearer …`."""

    token: Annotated[Secret, Meta(description='The token; best as `"${NAME_OF_VARIABLE}"`.')]


class ApiKeyCredentials(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="api-key"
):
    """A key that is sent in a header of its own."""

    key: Annotated[Secret, Meta(description='The key; best as `"${NAME_OF_VARIABLE}"`.')]
    header: Annotated[str, Meta(description="Name of the header.")] = "X-API-Key"


class OAuth2Credentials(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="oauth2"
):
    """OAuth 2 client credentials: a token is fetched when needed, and kept while it is valid."""

    token_url: Annotated[str, Meta(description="Token endpoint, http or https.")]
    client_id: Annotated[str, Meta(min_length=1, description="Who we are at the token endpoint.")]
    client_secret: Annotated[
        Secret, Meta(description='Our secret there; best as `"${NAME_OF_VARIABLE}"`.')
    ]
    scopes: Annotated[tuple[str, ...], Meta(description="Scopes to ask for.")] = ()
    audience: Annotated[str, Meta(description="Audience to ask for, where one is needed.")] = ""


CredentialSettings: TypeAlias = BearerCredentials | ApiKeyCredentials | OAuth2Credentials
