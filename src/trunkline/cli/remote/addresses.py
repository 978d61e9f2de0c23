"""From the address or alias that a user typed to the target that is called."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import SplitResult, urlsplit

from msgspec.structs import replace

from trunkline.cli.call_path import join_call_path
from trunkline.cli.options import ConfigFlags
from trunkline.model.addresses import without_password
from trunkline.model.card import AgentCard, AgentInterface
from trunkline.model.errors import ConfigError
from trunkline.remote import BadPeerAnswer, PeerRefused, RemoteAgent, RemoteError, Target
from trunkline.settings.server import is_loopback_host, is_loopback_url

# `:8642`, `localhost:8642`, `[::1]:8642/path`, `agents.example.com:443`
_HOST_AND_PORT: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|)"
    r":(?P<port>[0-9]{1,5})(?P<rest>[/?].*)?"
)
_NO_CARD: Final = frozenset({404, 405, 410})
# An interface is a few folders below its card at most.
_MAX_PARENTS: Final = 8
# Paths of a Trunkline gateway below its root. Only a proxy knows the path that a public url
# has before them.
_OWN_PATH: Final = re.compile(r"/a2a(/.*)?|/api/a2a/v1/agents/.+")

Open = Callable[[Target], RemoteAgent]


def url_of(named: str) -> str:
    """The url for a host and a port; empty for anything else.

    Plain HTTP is for this machine alone: a token could go along with the message.
    """
    match = _HOST_AND_PORT.fullmatch(named)
    if match is None:
        return ""
    host = match["host"] or "127.0.0.1"
    scheme = "http" if is_loopback_host(host) else "https"
    return f"{scheme}://{host}:{match['port']}{match['rest'] or ''}"


def target_of(named: str, files: ConfigFlags) -> Target:
    """The target of that address or alias. Raises ConfigError."""
    join_call_path()
    if files.file is not None:
        from trunkline.app.outbound import target_for

        if not named:
            raise ConfigError("TARGET is empty. Give a URL, or the alias of a target.")
        settings = files.load_to_call()
        return target_for(settings, named if named in settings.targets else url_of(named) or named)
    if "://" in named or url_of(named):
        return Target(url=url_of(named) or named)
    if any(sign in named for sign in ".:/") or named == "localhost":
        is_local = re.match(r"localhost|127\.|\[::1\]", named) is not None
        scheme = "http" if is_local else "https"
        shown = without_password(named)
        raise ConfigError(f'"{shown}" has no scheme. Did you mean {scheme}://{shown} ?')
    raise ConfigError(
        f'"{named}" is not an address, and no configuration defines this alias. Give a URL such '
        f"as https://agent.example, or --config FILE with a table [targets.{named or 'name'}]."
    )


async def other_way(agent: RemoteAgent, open_agent: Open) -> tuple[AgentCard, Target | None]:
    """The card, and another way to the agent than it names; None to call it as the card says.

    Raises RemoteError.
    """
    try:
        card = await agent.card()
    except (PeerRefused, BadPeerAnswer):
        # Nothing was sent without a card, so another address may be tried.
        if may_be_interface(agent.target.url):
            with suppress(RemoteError):
                if (found := await _by_interface(agent.target, open_agent)) is not None:
                    return found
        raise
    typed = urlsplit(agent.target.url)
    if not is_loopback_url(agent.target.url):
        return card, None
    # A gateway on this machine may name a public address, which may not lead here, or not yet;
    # the address that was typed does.
    elsewhere = [one for one in card.supported_interfaces if not is_loopback_url(one.url)]
    if not elsewhere or not await agent.is_trunkline():
        return card, None
    here = _called_at(typed, card) or tuple(
        replace(one, url=_at(typed, urlsplit(one.url).path))
        for one in elsewhere
        if _OWN_PATH.fullmatch(urlsplit(one.url).path)
    )
    return card, replace(agent.target, interfaces=here) if here else None


async def _by_interface(target: Target, open_agent: Open) -> tuple[AgentCard, Target] | None:
    """The agent whose interface is at `target.url` or above it; None if there is none.

    Looks for its card in the folders above. The interface is called at the address that was
    typed, whatever host the card names.
    """
    typed = urlsplit(target.url)
    for path in _parents(typed.path):
        above = replace(target, url=_at(typed, path))
        async with open_agent(above) as agent:
            try:
                card = await agent.card()
            except PeerRefused as error:
                if error.status not in _NO_CARD:
                    raise
                continue
            except BadPeerAnswer:
                continue
        if found := _called_at(typed, card):
            return card, replace(above, interfaces=found)
    return None


def may_be_interface(url: str) -> bool:
    path = urlsplit(url).path
    return bool(path.strip("/")) and not path.endswith(".json")


def _called_at(typed: SplitResult, card: AgentCard) -> tuple[AgentInterface, ...]:
    """The interfaces that the typed path belongs to, at the typed address."""
    return tuple(
        replace(one, url=_at(typed, part))
        for one in card.supported_interfaces
        if (part := _typed_part(typed.path, urlsplit(one.url).path))
    )


def _typed_part(typed: str, path: str) -> str:
    """The part of the typed path that is the path of the interface; empty if there is none.

    A proxy may put something before the path (then the card has more than was typed), and
    HTTP+JSON has the calls below it (then more was typed than the card has).
    """
    typed, path = typed.rstrip("/"), path.rstrip("/")
    if not typed or not path:
        return ""
    if path.endswith(typed):
        return typed
    return path if typed.startswith(f"{path}/") else ""


def _parents(path: str) -> Iterator[str]:
    for _ in range(_MAX_PARENTS):
        path = path.rstrip("/").rpartition("/")[0]
        yield path
        if not path:
            return


def _at(typed: SplitResult, path: str) -> str:
    query = f"?{typed.query}" if typed.query else ""
    return f"{typed.scheme}://{typed.netloc}{path}{query}"
