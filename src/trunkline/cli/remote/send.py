"""`trunkline send`, `stream` and `watch`."""

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from trunkline.cli import options
from trunkline.cli.remote.invocation import Invocation, Work, agent_command

if TYPE_CHECKING:
    from trunkline.model.values import Part


class MessageFlags(Struct, frozen=True, kw_only=True):
    """The flags of a message: its content, and the conversation to which it belongs."""

    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="Text of the message. With - or nothing it is read from stdin."
        ),
    ] = None
    file: options.Files = None
    data: options.Data = None
    save: options.Save = None
    continue_: Annotated[
        bool,
        typer.Option(
            "--continue",
            help="Continue the last conversation with this target, or answer its question.",
        ),
    ] = False
    task: Annotated[
        str, options.id_option("Task to answer or to add to.", default="a new task")
    ] = ""
    context: Annotated[
        str, options.id_option("Conversation of the message.", default="a new conversation")
    ] = ""

    def parts(self) -> "tuple[Part, ...]":
        """Reads files and stdin. Raises ConfigError."""
        from trunkline.cli.remote.files import message_parts

        return message_parts(self.text, self.file or [], self.data or [])


@agent_command
def send(
    call: Invocation,
    message: MessageFlags,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Print the task id at once; do not wait for the answer."),
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Request the answer in one piece.")
    ] = False,
    history: options.History = None,
) -> Work:
    """Send a message to an agent and print the answer.

    On a terminal the answer appears while the agent writes it. In a pipe, only the text of the
    answer is printed on stdout. The exit code tells how the task ended.
    """
    from trunkline.cli.remote.delivery import deliver

    return deliver(
        call, message, message.parts(), history, waits=not no_wait, streams=not no_stream
    )


@agent_command
def stream(call: Invocation, message: MessageFlags, history: options.History = None) -> Work:
    """Send a message and print the answer while the agent writes it, also in a pipe.

    With -o json, prints one line for each event.
    """
    from trunkline.cli.remote.delivery import deliver

    return deliver(call, message, message.parts(), history, shows_stream=True)


@agent_command
def watch(call: Invocation, task: options.TaskArgument = "", save: options.Save = None) -> Work:
    """Follow a task until it ends or asks a question.

    Reconnects when the connection breaks. Ctrl+C stops watching; the task continues. With
    -o json, prints one line for each event.
    """
    from trunkline.cli.remote.delivery import watch_task

    return watch_task(call, task, save)
