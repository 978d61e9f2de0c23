"""`LiveScreen`, `PlainScreen` and `JsonScreen`: how a gateway fares at its relay, as one line that
changes, as lines, or as lines of JSON. `remedy` says what to do about a refusal."""

import io
import logging
import math
import shutil
from datetime import datetime
from typing import Any, Final, TextIO

from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import clean, counted, has_colours, json_line, one_line
from trunkline.clock import SystemClock
from trunkline.protocol.relay.close_codes import FORBIDDEN, REPLACED
from trunkline.relay.hosts.host import HostState, HostStatus
from trunkline.relay.hosts.link import LinkStatus

_ERASE: Final = "\r\x1b[2K"
_COLOURS: Final = {"attached": "32", "connecting": "36", "waiting": "33", "refused": "1;31"}


class Screen:
    """Decides when a refused gateway stops, and leaves showing to others."""

    # Where the log goes; None means stderr.
    log: TextIO | None = None

    def __init__(self, *, may_renew: bool = False) -> None:
        """`may_renew` is for a token that another program renews: then a gateway whose token was
        good before waits for the next one."""
        self.refusal = ""
        self._may_renew = may_renew
        self._was_attached = False

    def show(self, status: HostStatus) -> int:
        self.update(status)
        self._was_attached = self._was_attached or status.state is HostState.ATTACHED
        refused = refusal_of(status)
        if refused is None:
            return Exit.DONE
        if self._may_renew and self._was_attached and refused.code != REPLACED:
            return Exit.DONE
        self.refusal = f"{refused.relay}: {one_line(refused.trouble)}. {remedy(refused.code)}"
        return Exit.REPLACED if refused.code == REPLACED else Exit.NO_ACCESS

    def update(self, status: HostStatus) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """The gateway has stopped."""


class PlainScreen(Screen):
    """A line for each change, without what changes all the time."""

    def __init__(self, out: TextIO, *, may_renew: bool = False) -> None:
        super().__init__(may_renew=may_renew)
        self._out = out
        self._last = ""

    def update(self, status: HostStatus) -> None:
        line = summary(status)
        if line != self._last:
            self._last = line
            print(clean(line), file=self._out, flush=True)


class JsonScreen(Screen):
    """A line for each change, for programs."""

    def __init__(self, out: TextIO, *, may_renew: bool = False) -> None:
        super().__init__(may_renew=may_renew)
        self._out = out
        self._last: object = None

    def started(self, urls: tuple[str, ...], *, data: str) -> None:
        self._print({"state": "started", "urls": list(urls), "data": data})

    def update(self, status: HostStatus) -> None:
        key = (phase(status), status.relay, status.agents, status.trouble)
        if key != self._last:
            self._last = key
            self._print(document(status))

    def close(self) -> None:
        self._print({"state": "stopped"})

    def _print(self, value: dict[str, Any]) -> None:
        print(json_line(value), file=self._out, flush=True)


class LiveScreen(Screen):
    """One line at the bottom of the terminal; the log is written above it."""

    def __init__(self, terminal: TextIO, *, may_renew: bool = False) -> None:
        super().__init__(may_renew=may_renew)
        self.log = _AboveLine(self)
        self.terminal: Final = terminal
        self._line = ""
        # The line says the same.
        logging.getLogger("trunkline.relay.hosts.host").setLevel(logging.CRITICAL)

    def update(self, status: HostStatus) -> None:
        self._draw(one_line(details(status)), _COLOURS[phase(status)])

    def close(self) -> None:
        self.erase()
        self._line = ""

    def erase(self) -> None:
        if self._line:
            self.terminal.write(_ERASE)
            self.terminal.flush()

    def redraw(self) -> None:
        self.terminal.write(self._line)
        self.terminal.flush()

    def _draw(self, text: str, colour: str) -> None:
        # A line that the terminal breaks could not be erased as one.
        width = max(20, shutil.get_terminal_size().columns - 3)
        text = text if len(text) <= width else f"{text[: width - 1]}…"
        dot = f"\x1b[{colour}m●\x1b[0m" if has_colours(self.terminal) else "●"
        line = f"{dot} {text}"
        if line != self._line:
            self._line = line
            self.terminal.write(f"{_ERASE}{line}")
            self.terminal.flush()


class _AboveLine(io.StringIO):
    """A stream whose lines appear above the line of the screen."""

    def __init__(self, screen: LiveScreen) -> None:
        super().__init__()
        self._screen = screen

    def write(self, text: str) -> int:
        self._screen.erase()
        self._screen.terminal.write(text)
        self._screen.redraw()
        return len(text)

    def flush(self) -> None:
        self._screen.terminal.flush()

    def isatty(self) -> bool:
        return True


def phase(status: HostStatus) -> str:
    """attached, connecting, waiting or refused."""
    if status.state is not HostState.CONNECTING:
        return str(status.state)
    is_waiting = all(link.next_try_s is not None or link.is_refused for link in status.links)
    return "waiting" if is_waiting else "connecting"


def summary(status: HostStatus) -> str:
    """The state and its reason, without times and numbers."""
    match phase(status):
        case "attached":
            reason = _why_elsewhere(status)
            return f"attached to {status.relay} as {', '.join(status.agents)}{reason}"
        case "refused":
            return f"refused: {status.trouble}"
        case _ if status.trouble:
            return f"waiting after: {status.trouble}"
        case _:
            return f"connecting to {status.links[0].relay}"


def details(status: HostStatus) -> str:
    """The same for a line that changes."""
    match phase(status):
        case "attached":
            parts = [f"{summary(status)} since {_time(status.since_ms)}"]
            parts.append(counted(status.requests, "request"))
            if status.round_trip_s is not None:
                parts.append(f"round trip {status.round_trip_s * 1000:.0f} ms")
            return " · ".join(parts)
        case "waiting":
            waits = [link.next_try_s for link in status.links if link.next_try_s is not None]
            return f"waiting {math.ceil(min(waits, default=0))} s after: {status.trouble}"
        case "refused":
            return summary(status)
        case _:
            trouble = f" after: {status.trouble}" if status.trouble else ""
            trying = (link.relay for link in status.links if link.next_try_s is None)
            return f"connecting to {next(trying)}{trouble}"


def document(status: HostStatus) -> dict[str, Any]:
    since = status.since_ms
    trip_s = status.round_trip_s
    waits = [link.next_try_s for link in status.links if link.next_try_s is not None]
    return {
        "state": phase(status),
        "relay": status.relay or None,
        "agents": list(status.agents),
        "since": None if since is None else datetime.fromtimestamp(since / 1000).astimezone(),
        "requests": status.requests,
        "round_trip_ms": None if trip_s is None else round(trip_s * 1000, 1),
        "reason": status.trouble or None,
        "next_try_s": round(min(waits), 1) if waits else None,
    }


def _time(since_ms: int | None) -> str:
    if since_ms is None:
        return "now"
    since = datetime.fromtimestamp(since_ms / 1000).astimezone()
    today = datetime.fromtimestamp(SystemClock().now_ms() / 1000).astimezone()
    is_today = since.date() == today.date()
    return since.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")


def _why_elsewhere(status: HostStatus) -> str:
    first = status.links[0]
    if first.relay == status.relay or not first.trouble:
        return ""
    return f" in place of {first.relay} ({first.trouble})"


def refusal_of(status: HostStatus) -> LinkStatus | None:
    """The relay that refuses the gateway for good; None while another may still take it."""
    if status.state is not HostState.REFUSED:
        return None
    refused = [link for link in status.links if link.is_refused]
    replaced = (link for link in refused if link.code == REPLACED)
    return next(replaced, None) or next(iter(refused), None)


def remedy(code: int) -> str:
    if code == REPLACED:
        return (
            "Another gateway has attached the agent since. Stop it first, or give this one another "
            "name with --agent."
        )
    if code == FORBIDDEN:
        return (
            "Give a token that may attach this agent: its key at the relay needs "
            'attach = ["TENANT/AGENT"], its JWT the role agent, the tenant and the agent_id.'
        )
    return (
        "Check that the token is for this relay, was copied whole and has not ended; "
        "else ask the operator of the relay for a new one."
    )
