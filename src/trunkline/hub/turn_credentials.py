"""`TurnCredentials`: calls of an agent to others of the same gateway have the rights of its caller.

An agent that asks another agent of the gateway during a turn must not lend its own rights, or those
of the operator who configured its tools, to whoever calls it. So its calls to the gateway carry an
access token of the caller, which allows what the credential of the caller allows and ends with it.
"""

import logging
from collections.abc import Callable
from typing import Final

from trunkline.hub.token_values import ID
from trunkline.hub.tokens import Tokens
from trunkline.model.errors import TrunklineError
from trunkline.model.principal import Principal
from trunkline.ports.call_path import CredentialFor
from trunkline.ports.clock import Clock

_log = logging.getLogger("trunkline.hub")

_LASTS_S: Final = 300.0
# A token is renewed this long before it ends, so that none ends on its way.
_MARGIN_S: Final = 30.0
# For a call without any rights: it is refused like that of a caller without a credential.
NO_RIGHTS: Final = ""


class TurnCredentials:
    def __init__(self, tokens: Tokens, *, clock: Clock, is_own: Callable[[str], bool]) -> None:
        """`is_own` says whether a URL leads to this gateway."""
        self._tokens = tokens
        self._clock = clock
        self._is_own = is_own

    def of(self, caller: Principal | None, agent: str) -> CredentialFor:
        """The credentials of the calls of one turn. `caller` is None for a turn that began before a
        restart: its caller is not known any more, so its calls have no rights."""
        token, renew_at = NO_RIGHTS, 0.0

        async def credential_for(url: str) -> str | None:
            nonlocal token, renew_at
            if not self._is_own(url):
                return None
            if caller is None or caller.is_anonymous:
                return NO_RIGHTS
            if self._clock.monotonic() >= renew_at:
                token = await self._issued(caller, agent)
                renew_at = self._clock.monotonic() + _LASTS_S - _MARGIN_S
            return token

        return credential_for

    async def _issued(self, caller: Principal, agent: str) -> str:
        # All grants of the limit of a token have the same operations.
        within = caller.within
        operations = None if not within else within[0].operations
        try:
            issued = await self._tokens.issue(
                kind="access",
                name=f"a turn of {agent}",
                principal=caller.id,
                grants=caller.grants,
                agents=None if within is None else [grant.agent for grant in within],
                methods=None if operations is None else sorted(operations),
                reaches_open=caller.reaches_open,
                tenant=caller.tenant,
                expires_in_s=_LASTS_S,
                created_by=caller.id,
                parent=caller.token if ID.fullmatch(caller.token) else "",
            )
        except TrunklineError as error:
            _log.warning(
                "an agent calls another one without rights, because no token could be issued",
                extra={"agent": agent, "reason": error.message},
            )
            return NO_RIGHTS
        return issued.token
