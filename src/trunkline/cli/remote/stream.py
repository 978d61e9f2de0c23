"""`trunkline stream`."""

from trunkline.cli.remote import options
from trunkline.cli.remote.calling import Call, calls_agent


@calls_agent
def stream(
    call: Call,
    text: options.Text = None,
    file: options.Files = None,
    data: options.Data = None,
    save: options.Save = None,
    continue_: options.Continue = False,
    task: options.TaskOption = "",
    context: options.Context = "",
    history: options.History = None,
) -> None:
    """Send a message and print the answer while the agent writes it, also in a pipe.

    With -o json, prints one line for each event.
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
            shows_stream=True,
        ),
    )
