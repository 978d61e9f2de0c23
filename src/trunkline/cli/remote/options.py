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
        help="The url of an agent or of its card, or the alias of a configured target.",
        show_default=False,
    ),
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="The id of a task.",
        show_default="the last one that was sent to this target",
        callback=not_empty,
    ),
]
Output = Annotated[Form, typer.Option("--output", "-o", help="text for people, json for programs.")]
ProtocolOption = Annotated[
    Protocol | None,
    typer.Option(
        help="Insist on a binding: JSON-RPC or HTTP+JSON.", show_default="as the card says"
    ),
]
VersionOption = Annotated[
    A2AVersion | None,
    typer.Option("--a2a-version", help="Insist on a version.", show_default="as the card says"),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        "-H",
        metavar="'NAME: VALUE'",
        help="A header to send with every request; may be given several times.",
        show_default=False,
    ),
]
Token = Annotated[
    str,
    typer.Option(
        envvar="TRUNKLINE_TOKEN",
        metavar="TOKEN",
        help="A bearer token. From the environment it is for targets without a credential.",
        show_default=False,
        callback=not_empty,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        parser=seconds,
        metavar="SECONDS",
        help="Give up after this time; what was begun goes on.",
        show_default="none",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Everything on stderr, also without a terminal.")
]
Text = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT", help="What to say; - or nothing reads it from stdin.", show_default=False
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="PATH",
        help="A file to send, or the url of one; may be given several times. 20 MB in all.",
        show_default=False,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="JSON",
        help="Data to send, or @FILE with them; may be given several times.",
        show_default=False,
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Put the artifacts of the answer there as files. None is overwritten.",
        show_default=False,
    ),
]
Context = Annotated[
    str,
    typer.Option(
        metavar="ID",
        help="The conversation that the message belongs to.",
        show_default="a new one",
        callback=not_empty,
    ),
]
TaskOption = Annotated[
    str,
    typer.Option(
        metavar="ID",
        help="The task to go on with, that waits for input.",
        show_default="a new one",
        callback=not_empty,
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue", help="Go on with the last conversation with this target, or answer it."
    ),
]
History = Annotated[
    int | None,
    typer.Option(parser=whole(0), metavar="N", help="How many messages of the past to ask for."),
]
