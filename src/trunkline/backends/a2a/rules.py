"""Rules of `kind = "a2a"`."""

from collections.abc import Iterator

from trunkline.backends.a2a.settings import A2aBackend
from trunkline.config.called_agents import (
    card_path_problems,
    header_problems,
    origin_problems,
    transport_problems,
    url_problems,
)
from trunkline.config.problems import Path, Problem


def a2a_problems(backend: A2aBackend, path: Path) -> Iterator[Problem]:
    yield from url_problems(backend.url, (*path, "url"))
    yield from card_path_problems(backend.card_path, (*path, "card_path"))
    yield from transport_problems(backend.transports, (*path, "transports"))
    yield from header_problems(backend.headers, backend.credentials, path)
    yield from origin_problems(backend.trusted_origins, (*path, "trusted_origins"))
