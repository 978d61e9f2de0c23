"""All the agents that one program calls."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from trunkline.ports.clock import Clock
from trunkline.remote.agent import RemoteAgent, within
from trunkline.remote.clock import SystemClock, chance
from trunkline.remote.credentials import Bearer, Credentials
from trunkline.remote.link import Link
from trunkline.remote.target import Limits, Target, check_header

_Key: TypeAlias = tuple[
    str, str, tuple[str, ...], str, str, frozenset[tuple[str, str]], Credentials | None
]


class Agents:
    """One set of connections, one card and one circuit per target, for as long as it lives.

    Targets that differ in credentials or headers share nothing.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = chance,
    ) -> None:
        self._limits = limits or Limits()
        self._clock: Clock = clock or SystemClock()
        self._chance = chance
        self._links: dict[_Key, Link] = {}

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
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(
                target, limits=self._limits, clock=self._clock, chance=self._chance
            )
        return RemoteAgent(link, limits=within(self._limits, timeout_s), headers=headers or {})

    async def close(self) -> None:
        links, self._links = self._links, {}
        for link in links.values():
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
        target = replace(target, headers={**target.headers, **headers})
    limits = limits or Limits()
    link = Link(target, limits=limits, clock=clock or SystemClock(), chance=chance)
    return RemoteAgent(link, limits=within(limits, timeout_s), headers={}, close=link.close)
