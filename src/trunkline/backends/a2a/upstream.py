"""`Upstream`: the agent behind the gateway, as the backend calls it."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from trunkline.backends.a2a.settings import A2aBackend
from trunkline.config.secret import revealed
from trunkline.model.calls import ListTasksRequest
from trunkline.protocol.client_responses import TaskPage
from trunkline.remote import Limits, Target
from trunkline.remote.agents import Peer
from trunkline.remote.credentials import credentials_of
from trunkline.remote.retries import delay_s

# A turn limits its own attempts, so the circuit never opens: a turn reaches an agent that is
# back at once.
_LIMITS = Limits(circuit_failures=1_000_000)


class Upstream(Peer, Protocol):
    """Also lists its tasks, among which a run looks for the one that its message began."""

    async def list(self, request: ListTasksRequest | None = None) -> TaskPage: ...


# Makes the upstream for these headers and this timeout in seconds (None: the usual one).
MakeUpstream: TypeAlias = Callable[[dict[str, str], float | None], Upstream]


def reconnects_within(retry_s: float) -> int:
    """The number of the client's reconnects that fit into `retry_s`; then the turn retries."""
    count, spent_s = 0, delay_s(0, 1.0)
    while count < _LIMITS.reconnects and spent_s <= retry_s:
        count += 1
        spent_s += delay_s(count, 1.0)
    return count


def limits_of(settings: A2aBackend) -> Limits:
    return replace(_LIMITS, reconnects=reconnects_within(settings.retry_s))


def upstream_target(settings: A2aBackend, *, allow_private: bool) -> Target:
    return Target(
        url=settings.url,
        card_path=settings.card_path,
        transports=settings.transports,
        version=settings.a2a_version,
        headers=revealed(settings.headers),
        credentials=credentials_of(settings.credentials),
        trusted_origins=settings.trusted_origins,
        allow_private=allow_private,
        public_only=settings.public_only,
        timeout_s=settings.timeout_s,
    )
