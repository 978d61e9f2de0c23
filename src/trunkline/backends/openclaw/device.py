"""The device that OpenClaw pairs with: an Ed25519 key of this gateway, and its proof."""

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from trunkline.backends.openclaw.handshake import CLIENT_ID, CLIENT_MODE, ROLE, SCOPES
from trunkline.extras import install_command
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Device(Struct, frozen=True):
    public_key: bytes
    sign: Callable[[bytes], bytes]

    @property
    def id(self) -> str:
        return hashlib.sha256(self.public_key).hexdigest()


def proof(device: Device, *, token: str, platform: str, nonce: str, ts: int) -> dict[str, Any]:
    """The member `device` of `connect`: the signature of the device under the challenge."""
    client = ("v3", device.id, CLIENT_ID, CLIENT_MODE, ROLE, ",".join(SCOPES))
    signed = "|".join((*client, str(ts), token, nonce, platform.lower(), ""))
    return {
        "id": device.id,
        "publicKey": _base64url(device.public_key),
        "signature": _base64url(device.sign(signed.encode())),
        "signedAt": ts,
        "nonce": nonce,
    }


def load_device(file: Path) -> Device:
    """The device of the key in the file. A missing file is made, readable by its owner alone.

    Raises ConfigError.
    """
    key = _load_key(file)
    return Device(key.public_key().public_bytes_raw(), key.sign)


def _load_key(file: Path) -> "Ed25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise ConfigError(
            "backend.device_identity: a device identity needs the package cryptography. "
            f"Set device_identity = false, or install it: {install_command('openclaw')}"
        ) from None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return Ed25519PrivateKey.from_private_bytes(file.read_bytes())
        key = Ed25519PrivateKey.generate()
        with os.fdopen(descriptor, "wb") as out:
            out.write(key.private_bytes_raw())
        return key
    except ValueError:
        raise ConfigError(
            f"backend.device_identity: {file} holds no key. Remove it; a new device is made, "
            "which OpenClaw has to approve."
        ) from None
    except OSError as error:
        raise ConfigError(
            f"backend.device_identity: cannot use {file}: {error.strerror}. "
            "Give the gateway a data folder that it may write to."
        ) from None


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
