"""`HostToken`: the token of a host at one relay, from a provider that may have a newer one."""

from collections.abc import Awaitable, Callable

from trunkline.relay.hosts.dialing import DialFailed


class HostToken:
    def __init__(self, provider: Callable[[], Awaitable[str]]) -> None:
        """The provider raises DialFailed when it has none."""
        self._provider = provider
        self._last = ""

    async def next(self) -> str:
        """The token for an attempt, or for a live session. Raises DialFailed."""
        self._last = await self._provider()
        return self._last

    async def has_changed(self) -> bool:
        """Whether there is another token than the last one."""
        try:
            return await self._provider() != self._last
        except DialFailed:
            return False
