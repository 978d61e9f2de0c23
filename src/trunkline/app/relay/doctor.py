"""`examine_relays`: whether the relays of a configuration can be reached, and take its token."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

from trunkline.app.relay.host import read_token
from trunkline.ports.backend import Finding
from trunkline.ports.websocket import NORMAL
from trunkline.protocol.relay.close_codes import FORBIDDEN, NOT_AUTHENTICATED
from trunkline.relay.hosts import dialing
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.settings.relay import RelaySettings

_REMEDIES: Final = {
    NOT_AUTHENTICATED: "Check that it is for this relay, was copied whole and has not ended.",
    FORBIDDEN: "Ask the operator of the relay for a token that may attach these agents.",
}


async def examine_relays(settings: RelaySettings) -> AsyncIterator[Finding]:
    """Each relay is shown the token and then left. It learns of no agent, so one that is attached
    by the running gateway stays there."""
    try:
        token = await read_token(settings)
    except DialFailed as failed:
        yield Finding("error", failed.message, "Create the file, or set token_path in [relay].")
        return
    for url in (settings.url, *settings.standby):
        yield await _examine(url, token, is_v1=settings.protocol == "v1")


async def _examine(url: str, token: str, *, is_v1: bool) -> Finding:
    relay = urlsplit(url).netloc
    try:
        socket = await (dialing.dial_v1 if is_v1 else dialing.dial)(url, token)
    except DialFailed as failed:
        what = f"{relay}: {failed.message}"
        if failed.code in _REMEDIES:
            return Finding("error", what, _REMEDIES[failed.code])
        if failed.may_pass:
            remedy = "The gateway will try plain HTTP requests, unless relay.transport forbids it."
        else:
            remedy = "The gateway tries again by itself until the relay is there."
        return Finding("warning", what, remedy)
    speaks_v1 = socket.subprotocol is None
    await socket.close(NORMAL, "")
    if speaks_v1:
        return Finding("ok", f"{relay} can be reached, and speaks protocol v1")
    return Finding("ok", f"{relay} takes the token")
