"""Rules of `kind = "openai"`."""

import re
from collections.abc import Iterator

from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.config.urls import web_url_fault

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Key of a request → the setting for it; empty where only the gateway sets the key.
_OWN = {
    "model": "model",
    "stream": "stream",
    "temperature": "temperature",
    "messages": "",
    "tools": "tools",
    "stream_options": "",
    "n": "",
}
_OWN_HEADERS = frozenset({"content-type", "content-length", "transfer-encoding", "host", "accept"})


def openai_problems(backend: OpenAIBackend, path: Path) -> Iterator[Problem]:
    if fault := web_url_fault(backend.base_url):
        yield bad_value(
            (*path, "base_url"), fault, 'Example: base_url = "http://127.0.0.1:11434/v1".'
        )
    elif backend.base_url.rstrip("/").endswith("/chat/completions"):
        yield bad_value(
            (*path, "base_url"),
            "names the operation, too",
            "Leave /chat/completions out: the gateway adds it.",
        )
    if backend.api_key is not None:
        yield from _key_problems(backend, path)
    for name in backend.extra_body:
        if name in _OWN:
            setting = _OWN[name]
            remedy = f"Use {setting} of this table." if setting else "Remove it."
            yield Problem((*path, "extra_body", name), "is for the gateway to say", remedy)
    yield from _header_problems(backend, path)


def _key_problems(backend: OpenAIBackend, path: Path) -> Iterator[Problem]:
    key = backend.api_key.reveal() if backend.api_key is not None else ""
    if not key or _CONTROL.search(key) or not key.isascii():
        yield Problem(
            (*path, "api_key"),
            "expected the key, without line breaks" if key else "is empty",
            "Leave api_key out for a server that needs none.",
        )
    if any(name.lower() == "authorization" for name in backend.headers):
        yield Problem(
            (*path, "headers", "Authorization"),
            "api_key is sent in this header",
            "Keep one of the two.",
        )


def _header_problems(backend: OpenAIBackend, path: Path) -> Iterator[Problem]:
    for name, value in backend.headers.items():
        here = (*path, "headers", name)
        if not _HEADER.fullmatch(name):
            yield Problem(here, "is not the name of a header", "Correct it.")
        elif name.lower() in _OWN_HEADERS:
            yield Problem(here, "is for the gateway to say", "Remove it.")
        elif _CONTROL.search(value.reveal()) or not value.reveal().isascii():
            yield Problem(
                here, "has a line break, or letters beyond ASCII", "Write the value on one line."
            )
