import pytest

from trunkline.protocol.relay.hop_credentials import HopCredential, is_valid, read_header

SECRET = b"s" * 32
CREDENTIAL = HopCredential(entry="a1", holder="b2", nonce="c3")


def test_a_credential_is_read_as_it_was_made() -> None:
    header = CREDENTIAL.header(SECRET)
    assert read_header(header, "b2") == CREDENTIAL
    assert is_valid(header, CREDENTIAL, SECRET)
    assert SECRET.hex() not in header


@pytest.mark.parametrize("change", ["entry", "holder", "nonce", "secret"])
def test_it_counts_for_nothing_else(change: str) -> None:
    header = CREDENTIAL.header(SECRET)
    entry, nonce = ("x" if change == each else value for each, value in PARTS)
    other = HopCredential(entry=entry, holder="x" if change == "holder" else "b2", nonce=nonce)
    secret = b"t" * 32 if change == "secret" else SECRET
    claimed = f"Relay-Node {entry}.{nonce}.{header.rpartition('.')[2]}"
    assert not is_valid(claimed, other, secret)


PARTS = (("entry", "a1"), ("nonce", "c3"))


def test_the_key_of_a_session_is_no_credential_and_another_one_for_each_nonce() -> None:
    keys = {
        HopCredential(entry="a1", holder="b2", nonce=nonce).session_key(SECRET)
        for nonce in ("1", "2")
    }
    assert len(keys) == 2
    assert not any(key.hex() in CREDENTIAL.header(SECRET) for key in keys)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Relay-Node",
        "Relay-Node a.b",
        "Relay-Node a..c",
        "Bearer a.b.c",
        f"Relay-Node {'a' * 300}.b.c",
    ],
)
def test_what_is_none_is_not_read(header: str) -> None:
    assert read_header(header, "b2") is None
