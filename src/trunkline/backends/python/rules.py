"""Rules of `kind = "python"`."""

from collections.abc import Iterator
from pathlib import Path as File

from trunkline.backends.python.settings import PythonBackend, split_target
from trunkline.config.problems import Path, Problem, shown


def python_problems(backend: PythonBackend, path: Path) -> Iterator[Problem]:
    target = (*path, "target")
    place, attribute = split_target(backend.target)
    example = 'Examples: target = "agents.py", "agents.py:rust" or "package.module:rust".'
    if not place or (not place.endswith(".py") and not _is_module(place, attribute)):
        yield Problem(
            path=target,
            value=shown(backend.target),
            what="expected file.py, file.py:attribute, module or module:attribute",
            remedy=example,
        )
    elif place.endswith(".py") and not File(place).is_file():
        yield Problem(
            path=target,
            value=shown(backend.target),
            what="no such file",
            remedy="Relative files start at the folder of the configuration file, or at the "
            "current folder for `trunkline serve FILE.py`.",
        )


def _is_module(place: str, attribute: str) -> bool:
    names = [*place.split("."), *(attribute.split(".") if attribute else ())]
    return all(name.isidentifier() for name in names)
