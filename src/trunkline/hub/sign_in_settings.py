"""`SignInSettings`: how people sign in to the hub."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.config.secret import Secret
from trunkline.config.urls import url_fault

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
GITHUB: Final = "https://github.com"


class _Provider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    client_id: Annotated[
        str, doc("Client id of the gateway at the provider.", min_length=1, max_length=500)
    ]
    title: Annotated[
        str, doc("Name of the provider on the sign-in page. Empty: the name of its table.")
    ] = ""
    sign_up: Annotated[
        tuple[str, ...],
        doc(
            "Who becomes a user at the first sign-in: names of accounts at the provider (with "
            "OpenID Connect the claim `preferred_username`; name accounts only where people cannot "
            'choose it freely), `"@example.com"` for verified e-mail addresses of a domain, or '
            '`"*"` for everyone who has an account there. Empty: only users that an operator has '
            "added (`trunkline user add --provider`)."
        ),
    ] = ()


class OidcProvider(_Provider, frozen=True, kw_only=True, tag="oidc"):
    """A provider that speaks OpenID Connect."""

    issuer: Annotated[
        str, doc("Issuer, below which `/.well-known/openid-configuration` is. https, or loopback.")
    ]
    client_secret: Annotated[
        Secret | None,
        doc("Client secret. Absent: a public client, which proves itself by PKCE alone."),
    ] = None
    scopes: Annotated[tuple[str, ...], doc("Scopes to request.")] = ("openid", "profile", "email")
    algorithms: Annotated[
        tuple[Literal["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"], ...],
        doc("Algorithms of ID tokens that are accepted.", min_length=1),
    ] = ("RS256", "ES256")


class GithubProvider(_Provider, frozen=True, kw_only=True, tag="github"):
    """GitHub, with an OAuth app."""

    client_secret: Annotated[Secret, doc("Client secret of the OAuth app.")]
    url: Annotated[str, doc("Address of GitHub, for GitHub Enterprise Server.")] = GITHUB


ProviderSettings: TypeAlias = OidcProvider | GithubProvider


class SignInSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How people sign in to the hub, with a browser or `trunkline login`."""

    passwords: Annotated[
        bool,
        doc(
            "Whether users have passwords at the gateway itself; an operator adds them with "
            "`trunkline user add`."
        ),
    ] = True
    session_days: Annotated[
        int,
        doc(
            "Days until a session ends, counted from its sign-in: use does not prolong it.",
            ge=1,
            le=365,
        ),
    ] = 30
    providers: Annotated[
        dict[str, ProviderSettings],
        doc(
            "Providers at which people sign in, by name: OpenID Connect or GitHub; see their "
            "kinds. The redirect address to register there is "
            "`<public_url>/api/v1/auth/oauth/callback`."
        ),
    ] = {}


# The name of the gateway's own provider in addresses and records.
PASSWORDS: Final = "passwords"


def sign_in_problems(settings: SignInSettings, path: Path) -> Iterator[Problem]:
    issuers: dict[str, str] = {}
    for name, provider in settings.providers.items():
        here = (*path, "providers", name)
        if not _NAME.fullmatch(name) or name == PASSWORDS:
            yield Problem(
                here,
                "cannot be the name of a provider",
                "Use up to 64 lower-case letters, digits and hyphens, and not "
                f'"{PASSWORDS}", which is the gateway\'s own.',
            )
        key = "issuer" if isinstance(provider, OidcProvider) else "url"
        url = provider.issuer if isinstance(provider, OidcProvider) else provider.url
        if fault := _issuer_fault(url):
            yield bad_value(
                (*here, key), fault, f'Example: {key} = "https://accounts.example.com".'
            )
        twin = issuers.setdefault(url.rstrip("/"), name)
        if twin != name:
            yield bad_value(
                (*here, key),
                f'is that of the provider "{twin}" too',
                "Keep one of them: a user is known by the issuer and the subject.",
            )
        if isinstance(provider, GithubProvider) and not provider.client_secret:
            yield Problem(
                (*here, "client_secret"),
                "is empty",
                "Set it to a client secret of the OAuth app.",
            )


def _issuer_fault(url: str) -> str:
    if fault := url_fault(url):
        return fault
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        return "expected a URL without query and fragment"
    if parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return "expected https: sign-ins over plain HTTP can be read and changed on the way"
    return ""


def allows_sign_up(patterns: tuple[str, ...], *, account: str, verified_email: str) -> bool:
    """Whether an account that is not known yet becomes a user."""
    _, at, domain = verified_email.lower().rpartition("@")
    return any(
        pattern == "*"
        or (pattern.startswith("@") and bool(at) and pattern[1:].lower() == domain)
        or (bool(account) and pattern.lower() == account.lower())
        for pattern in patterns
    )
