"""Which headers go to which target. Names know no case, and a later one wins.

Defaults may be keys and are meant for the agents in the configuration, so they become part
of those. A URL that came with a request gets only what came with it.
"""

from collections.abc import Iterable, Mapping


def merged(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    return {**first, **spelled_as(first, then)}


def spelled_as(known: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """The given headers under the names that are known, so that none is sent twice."""
    names = {name.lower(): name for name in known}
    return {names.get(name.lower(), name): value for name, value in given.items()}
