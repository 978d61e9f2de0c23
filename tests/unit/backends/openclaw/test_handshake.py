"""Getting in, and why it may be refused."""

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from trunkline.backends.openclaw.device import load_device, proof
from trunkline.backends.openclaw.failures import Trouble
from trunkline.backends.openclaw.frames import Fault, Garbled, Response, decode, message_text
from trunkline.backends.openclaw.handshake import Boot, connect_params, read_hello, refused
from trunkline.model.errors import ConfigError

DEEP = '{"type":"event","event":"agent","payload":' + "[" * 100_000


def hello(**changes: Any) -> dict[str, Any]:
    return {
        "type": "hello-ok",
        "protocol": 4,
        "server": {"version": "2026.9.6", "bootId": "b1"},
        "auth": {"scopes": ["operator.read", "operator.write"]},
        "snapshot": {"uptimeMs": 1000},
        "policy": {"maxPayload": 100, "attachments": {"maxImageBytes": 10}},
        **changes,
    }


def test_what_openclaw_says_of_itself() -> None:
    read = read_hello(hello(), now_ms=5000)
    assert (read.version, read.protocol) == ("2026.9.6", 4)
    assert (read.max_payload_bytes, read.max_image_bytes) == (100, 10)
    assert read.boot == Boot("b1", 4000)
    assert read.attributes_messages


def test_an_old_release_says_less() -> None:
    read = read_hello({"type": "hello-ok", "protocol": 3, "server": {}}, now_ms=0)
    assert read.scopes is None
    assert not read.attributes_messages


def test_something_else_at_the_address() -> None:
    with pytest.raises(Trouble, match="does not greet like OpenClaw"):
        read_hello({"type": "welcome"}, now_ms=0)


def test_no_right_to_run_anything() -> None:
    with pytest.raises(Trouble, match="without the right") as caught:
        read_hello(hello(auth={"scopes": []}), now_ms=0)
    assert "device_identity" in caught.value.remedy


def test_which_process_it_is() -> None:
    assert Boot("a").is_same(Boot("a", 99))
    assert not Boot("a").is_same(Boot("b"))
    assert not Boot("a", 5).is_same(Boot("", 5))
    assert Boot("", 10_000).is_same(Boot("", 10_500))
    assert not Boot("", 10_000).is_same(Boot("", 17_000))


@pytest.mark.parametrize(
    ("fault", "found", "is_lasting"),
    [
        (("INVALID_REQUEST", "AUTH_TOKEN_MISMATCH"), "does not accept the token", True),
        (("NOT_PAIRED", "DEVICE_IDENTITY_REQUIRED"), "wants to know the device", True),
        (("NOT_PAIRED", ""), "does not know this device yet", True),
        (("NOT_PAIRED", "PAIRING_REQUIRED"), "does not know this device yet", True),
        (("INVALID_REQUEST", "AUTH_SCOPE_MISMATCH"), "fewer rights", True),
        (("INVALID_REQUEST", "PROTOCOL_MISMATCH"), "neither protocol 3 nor 4", True),
        (("UNAVAILABLE", ""), "starting or stopping", False),
        (("UNAVAILABLE", "AUTH_RATE_LIMITED"), "for a while", False),
        (("INVALID_REQUEST", "NEVER_SEEN"), "INVALID_REQUEST NEVER_SEEN", True),
    ],
)
def test_refusals_have_a_remedy(fault: tuple[str, str], found: str, is_lasting: bool) -> None:
    code, detail = fault
    trouble = refused(Fault(code=code, details={"code": detail}))
    assert found in trouble.found
    assert trouble.remedy
    assert trouble.is_lasting is is_lasting


def test_it_says_when_to_come_again() -> None:
    details = {"reason": "startup-sidecars", "retryAfterMs": 1500}
    assert refused(Fault(code="UNAVAILABLE", details=details)).retry_after_s == 1.5
    assert refused(Fault(code="UNAVAILABLE", retry_after_ms=10**9)).retry_after_s == 30.0


def test_connect_asks_for_the_events_of_its_own_sessions() -> None:
    params = connect_params(token="t", platform="linux")
    assert params["caps"] == ["tool-events", "session-scoped-events"]
    assert (params["minProtocol"], params["maxProtocol"]) == (3, 4)
    assert params["auth"] == {"token": "t"}
    assert "auth" not in connect_params(token="", platform="linux")


def test_a_device_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "data" / "device.key"
    made = load_device(file)
    assert load_device(file).id == made.id
    assert file.stat().st_mode & 0o077 == 0


def test_a_device_proves_itself_under_the_challenge(tmp_path: Path) -> None:
    device = load_device(tmp_path / "key")
    shown = proof(device, token="t", platform="Linux", nonce="n", ts=7)
    signed = (
        f"v3|{device.id}|gateway-client|backend|operator|"
        "operator.read,operator.write,operator.questions|7|t|n|linux|"
    )
    key = Ed25519PublicKey.from_public_bytes(device.public_key)
    key.verify(_decoded(shown["signature"]), signed.encode())
    assert _decoded(shown["publicKey"]) == device.public_key
    assert (shown["id"], shown["signedAt"], shown["nonce"]) == (device.id, 7, "n")


@pytest.mark.parametrize("content", [b"", b"too short"])
def test_a_file_that_holds_no_key(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no key"):
        load_device(file)


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot use"):
        load_device(tmp_path / "file" / "key")


@pytest.mark.parametrize("text", ["", "nonsense", "{", "\ud800", DEEP])
def test_what_is_no_frame(text: str) -> None:
    with pytest.raises(Garbled):
        decode(text)


@pytest.mark.parametrize("text", ["1", "{}", '{"type":"new"}', '{"type":"res","id":1}', "[]"])
def test_frames_of_other_kinds_are_passed_over(text: str) -> None:
    assert decode(text) is None


def test_a_payload_that_is_no_table() -> None:
    frame = decode('{"type":"res","id":"1","ok":true,"payload":[1]}')
    assert isinstance(frame, Response)
    assert frame.fields == {}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, 7]}, "a"),
        ({"content": 7}, ""),
        (None, ""),
    ],
)
def test_the_text_of_a_message(message: Any, text: str) -> None:
    assert message_text(message) == text


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
