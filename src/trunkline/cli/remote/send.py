"""`trunkline send`."""

from typing import Annotated

import typer

from trunkline.cli.remote import options
from trunkline.cli.remote.calling import Call, calls_agent


@calls_agent
def send(
    call: Call,
    text: options.Text = None,
    file: options.Files = None,
    data: options.Data = None,
    save: options.Save = None,
    continue_: options.Continue = False,
    task: options.TaskOption = "",
    context: options.Context = "",
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Print the task id at once; do not wait for the answer."),
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Request the answer in one piece.")
    ] = False,
    history: options.History = None,
) -> None:
    """Send a message to an agent and print the answer.

    On a terminal the answer appears while the agent writes it. In a pipe, only the text of the
    answer is printed on stdout. The exit code tells how the task ended.
    """
    from trunkline.cli.remote.content import parts_of
    from trunkline.cli.remote.sending import Sending, deliver

    deliver(
        call,
        Sending(
            parts=parts_of(text, file or [], data or []),
            task_id=task,
            context_id=context,
            is_continued=continue_,
            history=history,
            save=save,
            waits=not no_wait,
            streams=not no_stream,
        ),
    )
