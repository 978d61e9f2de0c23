"""How a call ends: an exit code, or an error with its remedy, or Ctrl+C."""

import asyncio
import io
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import typer

from trunkline.cli.exits import Exit
from trunkline.cli.failures import complain
from trunkline.cli.remote.addresses import at_this_machine, by_interface, may_be_interface
from trunkline.cli.remote.calling import Call
from trunkline.cli.remote.problems import explained
from trunkline.remote import (
    BadPeerAnswer,
    Limits,
    PeerRefused,
    RemoteAgent,
    RemoteError,
    Target,
    connect,
)

# One command talks to one agent, so nobody else is spared by giving up early: a restart of the
# peer is waited for, about a minute in all. Silence is no reason to end either; it leads to a
# new connection for a task that is known.
LIMITS: Final = Limits(
    call_s=600.0, idle_s=120.0, stream_s=30 * 86_400.0, reconnects=12, circuit_failures=1000
)


class Errand:
    """One command at work: which task it is about, as soon as that is known."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.task_id = ""
        self.is_sent = False
        # Puts the terminal in order before anything else is printed.
        self.on_end: Callable[[], None] = lambda: None


Work: TypeAlias = Callable[[RemoteAgent, Errand], Coroutine[Any, Any, Exit]]


def perform(call: Call, work: Work) -> None:
    """Run it to its end. Always raises typer.Exit."""
    prepare_streams()
    errand = Errand(call)
    try:
        try:
            code = asyncio.run(_within(errand, work))
            sys.stdout.flush()
        finally:
            errand.on_end()
    except KeyboardInterrupt:
        if not call.quiet:
            print(_detached(errand), file=sys.stderr)
        code = Exit.INTERRUPTED
    except TimeoutError:
        if call.timeout_s is None:
            raise
        complain(f"no answer within {call.timeout_s:g} s. {_detached(errand)}")
        code = Exit.TIMEOUT
    except RemoteError as error:
        if call.debug:
            traceback.print_exception(error)
        code, text = explained(error, call, is_card=isinstance(error.__cause__, _OfCard))
        complain(text)
    raise typer.Exit(code)


def prepare_streams() -> None:
    """A terminal that cannot show a character shows another one instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


async def _within(errand: Errand, work: Work) -> Exit:
    call, timeout_s = errand.call, errand.call.timeout_s
    # Our own limit is to be the first one that is reached.
    for_calls_s = None if timeout_s is None else timeout_s + 1

    def open_agent(target: Target) -> RemoteAgent:
        return connect(target, limits=LIMITS, timeout_s=for_calls_s)

    async with asyncio.timeout(timeout_s):
        try:
            return await _at_typed_address(errand, work, open_agent)
        except (PeerRefused, BadPeerAnswer) as error:
            # Without a card nothing was sent, so another address may be tried.
            is_of_card = isinstance(error.__cause__, _OfCard)
            if not is_of_card or not may_be_interface(call.target.url):
                raise
            found = None
            with suppress(RemoteError):
                found = await by_interface(call.target, open_agent)
            if found is None:
                raise
        errand.on_end()
        async with open_agent(found) as agent:
            return await work(agent, errand)


async def _at_typed_address(
    errand: Errand, work: Work, open_agent: Callable[[Target], RemoteAgent]
) -> Exit:
    async with open_agent(errand.call.target) as agent:
        async with about_card():
            here = await at_this_machine(agent)
        if here is None:
            return await work(agent, errand)
    async with open_agent(here) as agent:
        return await work(agent, errand)


class _OfCard(Exception):
    """Marks an error as one of the card."""


@asynccontextmanager
async def about_card() -> AsyncIterator[None]:
    """What fails inside is told as a failure to get the card."""
    try:
        yield
    except RemoteError as error:
        raise error from _OfCard()


def _detached(errand: Errand) -> str:
    call, task_id = errand.call, errand.task_id
    if task_id:
        return (
            "The task continues.\n"
            f"  Follow it: {call.command('watch', task_id)}\n"
            f"  Stop it:   {call.command('cancel', task_id)}"
        )
    if errand.is_sent:
        return f"The message may have arrived. See: {call.command('list')}"
    return "Nothing was sent."
