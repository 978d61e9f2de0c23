"""Rules of `kind = "python"`."""

from collections.abc import Iterator
from pathlib import Path as File

from trunkline.backends.python.settings import PythonBackend, split_target
from trunkline.config.problems import Path, Problem, bad_value


def python_problems(backend: PythonBackend, path: Path) -> Iterator[Problem]:
    target = (*path, "target")
    place, attribute = split_target(backend.target)
    example = 'Examples: target = "agents.py", "agents.py:rust" or "package.module:rust".'
    if not place or (not place.endswith(".py") and not _is_module(place, attribute)):
        yield bad_value(
            target, "expected file.py, file.py:attribute, module or module:attribute", example
        )
    elif place.endswith(".py") and not File(place).is_file():
        yield bad_value(
            target,
            "no such file",
            "Relative files start at the folder of the configuration file, or at the "
            "current folder for `trunkline serve FILE.py`.",
        )


def _is_module(place: str, attribute: str) -> bool:
    names = [*place.split("."), *(attribute.split(".") if attribute else ())]
    return all(name.isidentifier() for name in names)
