"""`TenantSettings`: a tenant of the relay, and how its tokens are checked."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, dotted
from trunkline.config.secret import Secret
from trunkline.config.urls import url_fault
from trunkline.model.handles import folded
from trunkline.relay.tenants.jwt_claims import is_tenant

# RFC 7518, 3.2: as long as the digest.
MIN_SECRET_BYTES: Final = 32
_MAKE_ONE: Final = "Make one with: openssl rand -base64 32"


class TenantSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant of the relay: the tokens of its hosts and of its clients are JSON Web Tokens, signed
    with one of its secrets (HS256) or by one of its keys (EdDSA, ES256 or RS256)."""

    secrets: Annotated[
        tuple[Secret, ...],
        doc(
            "Secrets of at least 32 bytes; a token is signed with any of them. To replace one, add "
            'the new one, and remove the old one a day later. Prefer `"${NAME_OF_VARIABLE}"`.'
        ),
    ] = ()
    secrets_by_id: Annotated[
        dict[str, Secret],
        doc("More secrets, for tokens whose header names them as `kid`."),
    ] = {}
    jwks_url: Annotated[
        str, doc("Address of a JWK Set with public keys. Needs the extra `hub`.")
    ] = ""
    jwks_path: Annotated[str, doc("File with a JWK Set, in place of `jwks_url`.")] = ""
    issuer: Annotated[
        str, doc("The claim `iss` that tokens need. Empty: that of `[relay_server]`.")
    ] = ""
    audience: Annotated[
        str, doc("The value that the claim `aud` must be or hold. Empty: that of `[relay_server]`.")
    ] = ""

    @property
    def has_keys(self) -> bool:
        return bool(self.jwks_url or self.jwks_path)


class TokenSettings(Struct, frozen=True, kw_only=True):
    """How the tokens of all tenants are checked."""

    tenants: Mapping[str, TenantSettings] = {}
    # Those that sign tokens of any tenant.
    secrets: tuple[Secret, ...] = ()
    issuer: str = ""
    audience: str = ""
    # Whether keys may be at private addresses.
    allow_private: bool = False


def token_problems(settings: TokenSettings, path: Path) -> Iterator[Problem]:
    places = [((*path, "jwt_secrets", i), each) for i, each in enumerate(settings.secrets)]
    names: dict[str, str] = {}
    for name, tenant in settings.tenants.items():
        here = (*path, "tenants", name)
        if not is_tenant(name):
            yield Problem(here, "cannot be a tenant", "Use up to 64 letters, digits and hyphens.")
        twin = names.setdefault(folded(name), name)
        if twin != name:
            yield Problem(here, f'differs from "{twin}" only in case', "Give it another name.")
        yield from _tenant_problems(tenant, here)
        places += [((*here, "secrets", i), each) for i, each in enumerate(tenant.secrets)]
        places += [
            ((*here, "secrets_by_id", id), each) for id, each in tenant.secrets_by_id.items()
        ]
    yield from _secret_problems(places)


def _tenant_problems(tenant: TenantSettings, path: Path) -> Iterator[Problem]:
    if not tenant.secrets and not tenant.secrets_by_id and not tenant.has_keys:
        yield Problem(
            path,
            "no host and no client has a token of this tenant",
            f'Add secrets = ["${{NAME_OF_VARIABLE}}"], or jwks_url. {_MAKE_ONE}',
        )
    if tenant.jwks_url and tenant.jwks_path:
        yield Problem(path, "has both jwks_url and jwks_path", "Keep one of them.")
    elif tenant.jwks_url and (fault := url_fault(tenant.jwks_url)):
        yield bad_value((*path, "jwks_url"), fault, "Give an https URL.")


def _secret_problems(places: Iterable[tuple[Path, Secret]]) -> Iterator[Problem]:
    seen: dict[Secret, Path] = {}
    for place, secret in places:
        if len(secret.reveal().encode()) < MIN_SECRET_BYTES:
            yield bad_value(place, f"shorter than {MIN_SECRET_BYTES} bytes", _MAKE_ONE)
        elif seen.setdefault(secret, place) != place:
            yield Problem(
                place,
                f"is the secret of {dotted(seen[secret])}",
                "Whoever has the secret of a tenant speaks for it, so each needs its own. "
                f"{_MAKE_ONE}",
            )
