"""The text that `serve` prints once the gateway listens, and while it stops."""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from trunkline.cli.program import program

if TYPE_CHECKING:
    from trunkline.settings import Settings

HELLO = {
    "1.0": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {
            "message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        },
    },
    "0.3": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "message/send",
        "params": {
            "message": {
                "kind": "message",
                "messageId": "m1",
                "role": "user",
                "parts": [{"kind": "text", "text": "hello"}],
            }
        },
    },
}


class Started(Protocol):
    """`trunkline.app.serve.ServeInfo`, as far as it is printed."""

    @property
    def url(self) -> str: ...
    @property
    def local_url(self) -> str: ...
    @property
    def card_url(self) -> str: ...
    @property
    def try_url(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def agents(self) -> Sequence[tuple[str, str, str]]: ...
    @property
    def auth(self) -> str: ...
    @property
    def mcp_url(self) -> str: ...
    @property
    def version(self) -> str: ...


def announce(
    started: Started,
    settings: "Settings",
    *,
    notes: Sequence[str] = (),
    out: TextIO | None = None,
) -> None:
    stream = out if out is not None else sys.stdout
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    key = "" if settings.allows_anonymous() else key_in_shell(settings)
    # Anything but the url of the interface leads to the public address that the card names.
    by_interface = bool(settings.public_urls())
    text = screen(started, key=key, by_interface=by_interface, notes=notes, coloured=coloured)
    # A supervisor reads this through a pipe and waits for it.
    print(text, file=stream, flush=True)


def say_what_is_waited_for(drain_s: float) -> None:
    """For people: a supervisor has limits of its own, and the log."""
    if sys.stderr.isatty():
        print(
            f"\nStopping: running turns have {drain_s:g} s to finish. Ctrl+C again stops now.",
            file=sys.stderr,
            flush=True,
        )


def key_in_shell(settings: "Settings") -> str:
    """An API key as a word for the shell: its environment variable, or a placeholder."""
    for key in settings.auth.keys.values():
        if key.key is not None and key.key.variable:
            return f'"${key.key.variable}"'
    return "KEY"


def screen(
    started: Started,
    *,
    key: str = "",
    by_interface: bool = False,
    notes: Sequence[str] = (),
    coloured: bool = False,
) -> str:
    def label(name: str) -> str:
        return f"\x1b[1m{name:<9}\x1b[0m" if coloured else f"{name:<9}"

    rows = [("Gateway", started.url)]
    if started.local_url != started.url:
        rows.append(("Local", started.local_url))
    if started.card_url:
        rows.append(("Card", started.card_url))
    widths = [max(map(len, column)) for column in zip(*started.agents, strict=True)]
    for i, row in enumerate(started.agents):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        rows.append(("Agents" if i == 0 else "", "  ".join(cells).rstrip()))
    if started.mcp_url:
        rows.append(("MCP", started.mcp_url))
    rows += [("Data", started.data), ("Access", started.auth)]
    lines = [f"{label(name)} {value}" for name, value in rows]
    if started.try_url:
        has_card = started.card_url and not by_interface
        agent = started.local_url if has_card else started.try_url
        line = curl(started.try_url, key=key, version=started.version)
        lines += ["", "Try it in another terminal:", f"  {send(agent, key=key)}", f"  {line}"]
    lines += ["", *(f"Note: {note}" for note in notes)] if notes else []
    return "\n".join([*lines, "", "Stop with Ctrl+C."])


def send(url: str, *, key: str = "") -> str:
    line = f"{program()} send {shlex.quote(url)} hello"
    return f"{line} --token {key}" if key else line


def curl(url: str, *, key: str = "", version: str = "1.0") -> str:
    """A line for a POSIX shell that sends a message over JSON-RPC."""
    words = ["curl", "-s", url, "-H", "content-type: application/json"]
    words += ["-H", f"A2A-Version: {version}"]
    line = " ".join(shlex.quote(word) for word in words)
    if key:
        line += f' -H "Authorization: Bearer {key.strip(chr(34))}"'
    return f"{line} -d {shlex.quote(json.dumps(HELLO[version], separators=(',', ':')))}"
