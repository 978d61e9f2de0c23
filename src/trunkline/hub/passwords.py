"""`Passwords`: hashes of passwords, made and checked beside the event loop.

A hash takes about 20 ms of a core and 19 MB on purpose. Two threads make them, and only a few more
may wait, so that many sign-ins at once take neither the cores nor the memory of the agents.
"""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from trunkline.extras import install_command
from trunkline.model.errors import ConfigError, InvalidParams, Unavailable

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_CHARS: Final = 10
# Longer ones only cost time to receive.
MAX_CHARS: Final = 256
_THREADS: Final = 2
# Those that wait and those that run.
MAX_AT_ONCE: Final = 32
_RETRY_AFTER_S: Final = 2

T = TypeVar("T")


class Passwords:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="passwords")
        self._waiting = 0

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        from argon2 import PasswordHasher

        # The parameters that OWASP recommends for Argon2id.
        return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

    @cached_property
    def _of_nobody(self) -> str:
        """A hash that no password has, so that an unknown login takes as long as a known one."""
        return self._hasher.hash(secrets.token_urlsafe(32))

    async def hashed(self, password: str) -> str:
        """Raises InvalidParams for one that is too short or too long, and Unavailable."""
        check_password(password)
        return await self._in_thread(lambda: self._hasher.hash(password))

    async def fits(self, password: str, known: str) -> bool:
        """Whether the password has this hash. An empty hash fits none, and takes as long. Raises
        Unavailable when too many wait."""
        if len(password) > MAX_CHARS:
            return False
        return await self._in_thread(lambda: self._fits(password, known))

    def _fits(self, password: str, known: str) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            self._hasher.verify(known or self._of_nobody, password)
        except (VerificationError, InvalidHashError, UnicodeEncodeError):
            return False
        return bool(known)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._waiting >= MAX_AT_ONCE:
            raise Unavailable(
                "Too many people sign in at the moment; try again in a few seconds",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def check_password(password: str) -> None:
    """Raises InvalidParams, which does not repeat the password."""
    if len(password) < MIN_CHARS:
        raise InvalidParams.at("password", f"has fewer than {MIN_CHARS} characters")
    if len(password) > MAX_CHARS:
        raise InvalidParams.at("password", f"has more than {MAX_CHARS} characters")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise InvalidParams.at("password", "is not valid Unicode") from None


def check_installed() -> None:
    """Raises ConfigError without the package that hashes passwords."""
    try:
        import argon2  # noqa: F401
    except ImportError:
        raise ConfigError(
            "hub.sign_in.passwords: the package argon2-cffi is missing. Set passwords = false, or "
            f"install it: {install_command('hub')}"
        ) from None
