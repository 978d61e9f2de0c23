"""The flags that commands which call an agent share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trunkline.cli.options import Form
from trunkline.cli.typed import not_empty, seconds, whole
from trunkline.model.values import TaskState


class Protocol(StrEnum):
    jsonrpc = "jsonrpc"
    http = "http"


class A2AVersion(StrEnum):
    v1_0 = "1.0"
    v0_3 = "0.3"


class State(StrEnum):
    submitted = "submitted"
    working = "working"
    completed = "completed"
    failed = "failed"
    canceled = "canceled"
    rejected = "rejected"
    input_required = "input-required"
    auth_required = "auth-required"

    @property
    def task_state(self) -> TaskState:
        return TaskState[self.name.upper()]


TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="Address of an agent (URL, host:port or :port) or alias of a configured target.",
        show_default=False,
    ),
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="Id of a task.",
        show_default="the last task sent to this target",
        callback=not_empty,
    ),
]
Output = Annotated[
    Form, typer.Option("--output", "-o", help="Output format: text for people, json for programs.")
]
ProtocolOption = Annotated[
    Protocol | None,
    typer.Option(
        help="Use only this binding: JSON-RPC or HTTP+JSON.", show_default="chosen from the card"
    ),
]
VersionOption = Annotated[
    A2AVersion | None,
    typer.Option(
        "--a2a-version", help="Use only this A2A version.", show_default="chosen from the card"
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        "-H",
        metavar="'NAME: VALUE'",
        help="Header to send with every request. Repeatable.",
        show_default=False,
    ),
]
Token = Annotated[
    str,
    typer.Option(
        envvar="TRUNKLINE_TOKEN",
        metavar="TOKEN",
        help="Bearer token. From the environment, used only for targets without a credential.",
        show_default=False,
        callback=not_empty,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        parser=seconds,
        metavar="SECONDS",
        help="Stop waiting after this time. The task continues.",
        show_default="none",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print progress on stderr even without a terminal.")
]
Text = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        help="Text of the message. With - or nothing it is read from stdin.",
        show_default=False,
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="PATH",
        help="File to send, or the URL of a file. Repeatable; 20 MB in total.",
        show_default=False,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="JSON",
        help="JSON data to send, or @FILE to read it from a file. Repeatable.",
        show_default=False,
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Save the artifacts of the answer in this folder. Existing files are kept.",
        show_default=False,
    ),
]
Context = Annotated[
    str,
    typer.Option(
        metavar="ID",
        help="Conversation of the message.",
        show_default="a new conversation",
        callback=not_empty,
    ),
]
TaskOption = Annotated[
    str,
    typer.Option(
        metavar="ID",
        help="Task to answer or to add to.",
        show_default="a new task",
        callback=not_empty,
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue",
        help="Continue the last conversation with this target, or answer its question.",
    ),
]
History = Annotated[
    int | None,
    typer.Option(parser=whole(0), metavar="N", help="Number of earlier messages to fetch."),
]
