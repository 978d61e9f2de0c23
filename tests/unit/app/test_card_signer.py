import json
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from trunkline.app.card_signer import card_signer
from trunkline.model.errors import ConfigError


def test_the_id_of_a_key_is_its_own_or_its_thumbprint(tmp_path: Path) -> None:
    key = OKPKey.generate_key("Ed25519")
    file = tmp_path / "card.pem"
    file.write_bytes(key.as_pem(private=True))
    [public] = json.loads(card_signer(str(file), base_url="http://x").jwks())["keys"]
    assert public["kid"] == key.thumbprint()
    assert set(public) == {"kty", "crv", "x", "kid", "alg", "use"}
    file.write_text(json.dumps(key.as_dict(private=True, kid="mine")))
    [public] = json.loads(card_signer(str(file), base_url="http://x").jwks())["keys"]
    assert public["kid"] == "mine"


BAD = {
    "text": b"nonsense",
    "bytes": b"\xff\xfe",
    "public": ECKey.generate_key("P-256").as_pem(private=False),
    "another-curve": ECKey.generate_key("P-384").as_pem(private=True),
    "a-password": json.dumps(OctKey.generate_key(256).as_dict()).encode(),
    "locked": OKPKey.generate_key("Ed25519").as_pem(private=True, password="secret"),
    "a-list": b"[]",
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_without_such_a_key(name: str, tmp_path: Path) -> None:
    file = tmp_path / "card.pem"
    file.write_bytes(BAD[name])
    with pytest.raises(ConfigError, match=r"^server\.card_key_path: .*card\.pem"):
        card_signer(str(file), base_url="http://x")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .* No such file"):
        card_signer(str(tmp_path / "none.pem"), base_url="http://x")


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_a_weak_key(tmp_path: Path) -> None:
    file = tmp_path / "card.pem"
    file.write_bytes(RSAKey.generate_key(1024).as_pem(private=True))
    with pytest.raises(ConfigError, match="RSA of 2048 bits"):
        card_signer(str(file), base_url="http://x")
