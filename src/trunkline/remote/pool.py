"""All the agents that one program calls."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from weakref import WeakSet

from msgspec.structs import replace

from trunkline.clock import SystemClock, chance
from trunkline.ports.clock import Clock
from trunkline.remote.agent import RemoteAgent, within
from trunkline.remote.credentials import Bearer, Credentials
from trunkline.remote.headers import merged
from trunkline.remote.http import Network
from trunkline.remote.link import Link
from trunkline.remote.target import Limits, Target, check_header

_Key: TypeAlias = tuple[
    str,
    str,
    tuple[str, ...],
    str,
    str,
    frozenset[tuple[str, str]],
    Credentials | None,
    tuple[str, ...],
    bool,
    tuple[str, ...],
    bool,
]


# A request may name any url where the policy allows it; so many are kept of what that makes.
MAX_LINKS: Final = 500


class Agents:
    """One set of connections, one card and one circuit per target, for as long as it lives.

    Targets that differ in credentials or headers share nothing. Beyond `max_links`, the one
    not called for longest is forgotten, and begins anew when it is called again.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = chance,
        max_links: int = MAX_LINKS,
        network: Network | None = None,
    ) -> None:
        """`network` stands for the system's own, for tests."""
        self._limits = limits or Limits()
        self._clock: Clock = clock or SystemClock()
        self._chance = chance
        self._max_links = max_links
        self._network = network
        # The one that was asked for last is at the end.
        self._links: dict[_Key, Link] = {}
        # Whoever still uses one of these goes on with it.
        self._forgotten: WeakSet[Link] = WeakSet()

    async def __aenter__(self) -> "Agents":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def at(
        self,
        target: Target,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> RemoteAgent:
        """The agent of the target; `headers` are added to its own. Raises InvalidTarget."""
        for name, value in (headers or {}).items():
            check_header(name, value)
        key = _key(target)
        link = self._links.pop(key, None)
        if link is None:
            link = Link(
                target,
                limits=self._limits,
                clock=self._clock,
                chance=self._chance,
                network=self._network,
            )
        self._links[key] = link
        if len(self._links) > self._max_links:
            self._forgotten.add(self._links.pop(next(iter(self._links))))
        return RemoteAgent(
            link, limits=_within(self._limits, target, timeout_s), headers=headers or {}
        )

    async def close(self) -> None:
        links = [*self._links.values(), *self._forgotten]
        self._links = {}
        for link in links:
            await link.close()


def _key(target: Target) -> _Key:
    return (
        target.url,
        target.card_path,
        target.transports,
        target.version,
        target.idempotency,
        frozenset(target.headers.items()),
        target.credentials,
        target.card_keys,
        target.require_signature,
        target.trusted_origins,
        target.allow_private,
    )


def connect(
    target: str | Target,
    *,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> RemoteAgent:
    """An agent to call, with connections of its own: `async with connect(url) as agent`.

    Nothing is sent before the first call. Raises InvalidTarget.
    """
    if isinstance(target, str):
        target = Target(url=target)
    if token:
        target = replace(target, credentials=Bearer(token))
    if headers:
        target = replace(target, headers=merged(target.headers, headers))
    limits = limits or Limits()
    link = Link(target, limits=limits, clock=clock or SystemClock(), chance=chance)
    limits = _within(limits, target, timeout_s)
    return RemoteAgent(link, limits=limits, headers={}, close=link.close)


def _within(limits: Limits, target: Target, timeout_s: float | None) -> Limits:
    return within(limits, target.timeout_s if timeout_s is None else timeout_s)
