"""Settings of issuers of tokens and of client certificates."""

from typing import Any

import pytest

from trunkline.config.problems import InvalidSettings
from trunkline.settings import Settings, from_document

PRINT = "sha256:" + "a" * 64
ISSUER: dict[str, Any] = {
    "issuer": "https://issuer.example",
    "audience": "https://gateway.example",
    "jwks_url": "https://issuer.example/jwks",
}


def made(**hub: Any) -> Settings:
    return from_document({"store": {"kind": "memory"}, "hub": hub}, environment={})


def jwt(name: str = "corp", **changes: Any) -> dict[str, Any]:
    own = {key: value for key, value in {**ISSUER, **changes}.items() if value is not None}
    return {"jwt": {name: own}}


def certificates(
    fingerprint: str = PRINT, proxies: tuple[str, ...] = ("10.0.0.5",), **changes: Any
) -> dict[str, Any]:
    holder = {"name": "billing", **changes}
    own = {"trusted_proxies": [*proxies], "principals": {fingerprint: holder}}
    return {"client_certificates": own}


def test_valid_settings() -> None:
    settings = made(**jwt(), **certificates(proxies=("10.0.0.0/24", "::1")))
    assert settings.hub is not None
    assert settings.hub.jwt["corp"].algorithms == ("RS256", "ES256")
    assert settings.hub.client_certificates is not None


@pytest.mark.parametrize(
    ("hub", "where"),
    [
        (jwt("Corp"), "hub.jwt.Corp"),
        (jwt("a:b"), 'hub.jwt."a:b"'),
        (jwt(audience=""), "hub.jwt.corp.audience"),
        (jwt(jwks_path="keys.json"), "hub.jwt.corp"),
        (jwt(jwks_url=None), "hub.jwt.corp"),
        (jwt(jwks_url="ftp://issuer.example"), "hub.jwt.corp.jwks_url"),
        (jwt(algorithms=["HS256"]), "hub.jwt.corp.algorithms"),
        (jwt(algorithms=["none"]), "hub.jwt.corp.algorithms"),
        (jwt(algorithms=[]), "hub.jwt.corp.algorithms"),
        (jwt(agents=["acme"]), "hub.jwt.corp.agents"),
        (jwt(scopes=["root"]), "hub.jwt.corp.scopes"),
        ({"jwt": {"a": ISSUER, "b": ISSUER}}, "hub.jwt.b.issuer"),
        (certificates("sha256:AA"), "hub.client_certificates.principals"),
        (certificates(proxies=("proxy.example",)), "hub.client_certificates.trusted_proxies"),
        (certificates(proxies=("10.0.0.5/24",)), "hub.client_certificates.trusted_proxies"),
        (certificates(proxies=()), "hub.client_certificates.trusted_proxies"),
        (certificates(name="a b"), "hub.client_certificates.principals"),
        ({"client_certificates": {}}, "hub.client_certificates.trusted_proxies"),
    ],
)
def test_a_fault_names_its_key(hub: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        made(**hub)
    assert where in caught.value.message
