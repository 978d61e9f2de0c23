"""Rules of `kind = "openclaw"`."""

import re
from collections.abc import Iterator
from typing import Final

from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.config.urls import web_url_fault

_AGENT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PREFIX: Final = "agent:{agent_id}:"
# Names that OpenClaw uses itself; `a2a` is its own channel for A2A.
_RESERVED: Final = ("a2a", "acp", "cron", "hook", "subagent")


def openclaw_problems(backend: OpenClawBackend, path: Path) -> Iterator[Problem]:
    yield from _url_problems(backend, path)
    if not _AGENT_ID.fullmatch(backend.agent_id):
        yield bad_value(
            (*path, "agent_id"),
            "expected the id of an agent: letters, digits, - and _",
            "`openclaw agents list` shows the ids.",
        )
    yield from _key_problems(backend.session_key, (*path, "session_key"))
    if backend.surface == "http" and backend.device_identity:
        yield Problem(
            (*path, "device_identity"),
            "a device is known over the WebSocket only",
            'Set surface = "websocket", or device_identity = false.',
        )


def _url_problems(backend: OpenClawBackend, path: Path) -> Iterator[Problem]:
    scheme, colon, rest = backend.url.partition("://")
    web = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    if fault := web_url_fault(f"{web}{colon}{rest}"):
        yield bad_value(
            (*path, "url"),
            fault.replace("http or https", "ws, wss, http or https"),
            'Example: url = "ws://127.0.0.1:18789".',
        )


def _key_problems(template: str, path: Path) -> Iterator[Problem]:
    rest = template.removeprefix(_PREFIX)
    what = ""
    if rest == template:
        what = "an OpenClaw with several agents takes keys that begin with their agent only"
    elif rest.partition(":")[0].lower() in _RESERVED:
        what = f"OpenClaw keeps {rest.partition(':')[0]}: for itself"
    elif template.count("{context}") != 1:
        what = "without one {context} in it, conversations would share a session"
    elif set(re.findall(r"\{[^}]*\}?", template)) - {"{agent_id}", "{context}"}:
        what = "only {agent_id} and {context} are filled in"
    elif not template.isprintable() or any(character.isspace() for character in template):
        what = "expected a key without spaces"
    if what:
        yield bad_value(
            path, what, 'Leave it out, or write it like "agent:{agent_id}:br-{context}".'
        )
