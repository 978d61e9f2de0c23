"""Stopping a run at OpenClaw."""

import logging
from collections.abc import Callable
from typing import Final

from trunkline.backends.openclaw.connection import Connection
from trunkline.backends.openclaw.failures import Trouble
from trunkline.backends.openclaw.link import Link
from trunkline.ports.clock import Clock

_log = logging.getLogger("trunkline.backends.openclaw")

_ATTEMPTS: Final = 6
_WAIT_S: Final = 0.5


async def stop_run(
    link: Link,
    clock: Clock,
    *,
    session_key: str,
    openclaw_id: str,
    is_moot: Callable[[], bool] = lambda: False,
) -> None:
    """Stop it, whether it runs, waits in a queue or asks. `is_moot`: it has ended by itself."""
    extra = {"run": openclaw_id, "session": session_key}
    for _ in range(_ATTEMPTS):
        if is_moot():
            return
        try:
            if await _abort(await link.connection(), session_key, openclaw_id):
                return
        except Trouble as trouble:
            _log.info("cannot stop a run: %s", trouble.found, extra=extra)
        # It may be on its way in; an id that OpenClaw does not know yet cannot be stopped.
        await clock.sleep(_WAIT_S)
    _log.warning("OpenClaw did not stop a run", extra=extra)


async def _abort(connection: Connection, session_key: str, openclaw_id: str) -> bool:
    """True when it surely does not run any more."""
    fields = await connection.ask("chat.abort", {"sessionKey": session_key, "runId": openclaw_id})
    if fields.get("aborted") is True:
        return True
    waited = await connection.ask("agent.wait", {"runId": openclaw_id, "timeoutMs": 0})
    return waited.get("status") in ("ok", "error")
