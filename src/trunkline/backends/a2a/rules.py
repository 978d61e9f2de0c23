"""Rules of `kind = "a2a"`."""

from collections.abc import Iterator

from trunkline.backends.a2a.settings import A2aBackend
from trunkline.config.called_agents import (
    card_path_problems,
    credential_problems,
    header_problems,
    origin_problems,
    transport_problems,
)
from trunkline.config.problems import Path, Problem, bad_value
from trunkline.config.urls import url_fault


def a2a_problems(backend: A2aBackend, path: Path) -> Iterator[Problem]:
    fault = url_fault(backend.url)
    if fault:
        yield bad_value((*path, "url"), fault, 'Example: url = "https://support.example.com".')
    yield from card_path_problems(backend.card_path, (*path, "card_path"))
    yield from transport_problems(backend.transports, (*path, "transports"))
    yield from header_problems(backend.headers, backend.credentials, path)
    if backend.credentials is not None:
        yield from credential_problems(backend.credentials, (*path, "credentials"))
    yield from origin_problems(backend.trusted_origins, (*path, "trusted_origins"))
