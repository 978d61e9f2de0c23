"""Agents that run inside this process."""

from typing import Annotated

from msgspec import Meta, Struct


class EchoBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="echo"
):
    """Answers with the message itself."""


class PythonBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="python"
):
    """An agent written in Python, which runs in the gateway."""

    target: Annotated[
        str,
        Meta(
            description="`file.py`, `file.py:attribute`, `module` or `module:attribute`. "
            "Relative files start at the folder of this file. LangGraph graphs and "
            "agents of pydantic-ai and Google ADK need no adapter."
        ),
    ]


class ScriptedBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="scripted"
):
    """Follows the commands in the message, for tests of clients."""

    turn_log: Annotated[
        str,
        Meta(
            description="File to which the agent appends a line for each turn that it runs: the "
            "task id, the message id and the run id. Empty: none."
        ),
    ] = ""
