"""`JwtIssuer` and `ClientCertificates`: settings of callers whose credentials others issue."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.config.urls import url_fault
from trunkline.hub.token_values import Scope
from trunkline.model.handles import HANDLE

Algorithm: TypeAlias = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
]
FINGERPRINT: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class Access(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller may do. Grants of agents to its principal count beside it."""

    agents: Annotated[
        tuple[str, ...],
        doc("Agents that it may call: handles, `owner/*` or `*`."),
    ] = ()
    open: Annotated[bool, doc("Whether it may call every public and unlisted agent.")] = False
    scopes: Annotated[
        tuple[Scope, ...],
        doc("`read` and `call` allow operations of A2A, `admin` to manage everything."),
    ] = ("call",)


class JwtIssuer(Access, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer of JSON Web Tokens that callers send as bearer tokens."""

    issuer: Annotated[str, doc("The claim `iss`, character by character.")]
    audience: Annotated[str, doc("The value that the claim `aud` must be or hold.")]
    jwks_url: Annotated[str, doc("Address of the issuer's JWK Set. Give this or `jwks_path`.")] = ""
    jwks_path: Annotated[str, doc("File with the issuer's JWK Set.")] = ""
    algorithms: Annotated[
        tuple[Algorithm, ...], doc("Algorithms of signatures that are accepted.", min_length=1)
    ] = ("RS256", "ES256")
    principal_claim: Annotated[
        str, doc("Claim that names the caller; its principal is `jwt:NAME:VALUE`.")
    ] = "sub"
    scope_claim: Annotated[
        str, doc("Claim that names scopes, as a text with spaces or as a list.")
    ] = "scope"
    scope_map: Annotated[
        dict[str, tuple[Scope, ...]] | None,
        doc(
            'Scopes of the issuer and what each allows, such as `{"agents.read" = ["read"]}`. '
            "A token without one of them allows nothing. Absent: every token has `scopes`."
        ),
    ] = None
    clock_skew_s: Annotated[
        int, doc("How far the clocks of the issuer and the gateway may differ.", ge=0, le=600)
    ] = 60


class CertificateHolder(Access, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The holder of a client certificate."""

    name: Annotated[str, doc("Its principal is `cert:NAME`.")]


class ClientCertificates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Client certificates that a proxy in front verified and states as `Client-Cert` (RFC 9440)."""

    trusted_proxies: Annotated[
        tuple[str, ...],
        doc(
            "Addresses or networks of the proxies. The proxy must remove `Client-Cert` from what "
            "its own clients send. The gateway refuses a request with this header from any other "
            "address.",
            min_length=1,
        ),
    ]
    principals: Annotated[
        dict[str, CertificateHolder],
        doc("Holders by the fingerprint of their certificate, `sha256:` and 64 hex digits."),
    ]


def jwt_problems(issuers: Mapping[str, JwtIssuer], path: Path) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, each in issuers.items():
        here = (*path, name)
        if not _NAME.fullmatch(name):
            yield Problem(
                here,
                "cannot be the name of an issuer",
                "Use up to 64 lower-case letters, digits and hyphens.",
            )
        for key in ("issuer", "audience", "principal_claim"):
            if not getattr(each, key):
                yield Problem((*here, key), "is empty", f"Set {key}.")
        twin = seen.setdefault(each.issuer, name)
        if twin != name:
            yield bad_value((*here, "issuer"), f'is that of "{twin}" too', "Keep one of them.")
        if bool(each.jwks_url) == bool(each.jwks_path):
            yield Problem(
                here,
                "needs jwks_url or jwks_path, and not both",
                'Example: jwks_url = "https://issuer.example/.well-known/jwks.json".',
            )
        elif each.jwks_url and (fault := url_fault(each.jwks_url)):
            yield bad_value((*here, "jwks_url"), fault, "Give an https URL.")
        yield from _access_problems(each, here)


def certificate_problems(settings: ClientCertificates, path: Path) -> Iterator[Problem]:
    for index, address in enumerate(settings.trusted_proxies):
        try:
            ipaddress.ip_network(address)
        except ValueError:
            yield bad_value(
                (*path, "trusted_proxies", index),
                "is not an address or a network",
                'Example: "10.0.0.5" or "10.0.0.0/24".',
            )
    for fingerprint, holder in settings.principals.items():
        here = (*path, "principals", fingerprint)
        if not FINGERPRINT.fullmatch(fingerprint):
            yield Problem(
                here,
                "is not a fingerprint",
                "Make it with: openssl x509 -in CERT -outform DER | sha256sum, in lower case "
                "behind `sha256:`.",
            )
        if not _NAME.fullmatch(holder.name):
            yield bad_value(
                (*here, "name"),
                "cannot be a name",
                "Use up to 64 lower-case letters, digits and hyphens.",
            )
        yield from _access_problems(holder, here)


def _access_problems(access: Access, path: Path) -> Iterator[Problem]:
    for index, agent in enumerate(access.agents):
        if agent != "*" and not HANDLE.fullmatch(agent):
            yield Problem(
                (*path, "agents", index),
                "names no agent",
                'Name a handle, such as "acme/rust-expert", or "acme/*", or "*".',
            )
