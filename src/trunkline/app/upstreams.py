"""Settings to the A2A agents that stand behind published ones."""

from msgspec.structs import replace

from trunkline.app.outbound import credentials_of, revealed
from trunkline.backends.a2a import A2aBackend, Reach, Upstream
from trunkline.ports.clock import Clock
from trunkline.remote import Agents, Limits, Target
from trunkline.remote.retries import delay_s
from trunkline.settings import AgentSettings
from trunkline.settings import backends as kinds

# Each turn says itself how long it tries. An agent that is back is to be reached at once.
_LIMITS = Limits(circuit_failures=1_000_000)


def reconnects_within(retry_s: float) -> int:
    """How often a stream is resumed by itself, so that an agent is not given longer than
    `retry_s` by the client before the turn takes over."""
    count, spent_s = 0, delay_s(0, 1.0)
    while count < _LIMITS.reconnects and spent_s <= retry_s:
        count += 1
        spent_s += delay_s(count, 1.0)
    return count


def make_upstream_backend(
    given: kinds.A2aBackend, settings: AgentSettings, clock: Clock, *, allow_private: bool
) -> A2aBackend:
    target = upstream_target(given, allow_private=allow_private)
    limits = replace(_LIMITS, reconnects=reconnects_within(given.retry_s))
    agents = Agents(clock=clock, limits=limits)
    usual = agents.at(target)

    def upstream(headers: dict[str, str], timeout_s: float | None) -> Upstream:
        if not headers and timeout_s is None:
            return usual
        return agents.at(target, headers=headers, timeout_s=timeout_s)

    return A2aBackend(
        upstream,
        url=given.url,
        clock=clock,
        reach=Reach(
            on_unreachable=given.on_unreachable,
            retry_s=given.retry_s,
            turn_s=settings.task_deadline_s,
            max_output_bytes=given.max_output_bytes,
            version=given.a2a_version,
        ),
        close_upstream=agents.close,
    )


def upstream_target(given: kinds.A2aBackend, *, allow_private: bool) -> Target:
    return Target(
        url=given.url,
        card_path=given.card_path,
        transports=given.transports,
        version=given.a2a_version,
        headers=revealed(given.headers),
        credentials=credentials_of(given.credentials),
        trusted_origins=given.trusted_origins,
        allow_private=allow_private,
        timeout_s=given.timeout_s,
    )
