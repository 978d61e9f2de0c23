"""Settings of `kind = "python"`, and the two parts of its `target`."""

from typing import Annotated

from trunkline.backends.kind import BackendTable
from trunkline.config import doc


class PythonBackend(BackendTable, frozen=True, kw_only=True, tag="python"):
    """An agent written in Python, which runs in the gateway."""

    target: Annotated[
        str,
        doc(
            "`file.py`, `file.py:attribute`, `module` or `module:attribute`. "
            "Relative files start at the folder of this file. LangGraph graphs and "
            "agents of pydantic-ai and Google ADK need no adapter."
        ),
    ]


def split_target(target: str) -> tuple[str, str]:
    """File or module, and the attribute; a drive letter of Windows is part of the file."""
    place, colon, attribute = target.rpartition(":")
    if not colon or "/" in attribute or "\\" in attribute or attribute.endswith(".py"):
        return target, ""
    return place, attribute


def join_target(place: str, attribute: str) -> str:
    return f"{place}:{attribute}" if attribute else place


def is_file_target(target: str) -> bool:
    return split_target(target)[0].endswith(".py")
