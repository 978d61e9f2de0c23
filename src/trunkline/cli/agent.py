"""`trunkline agent`: agents of the registry, and `trunkline agent try`."""

from typing import Annotated

import typer

from trunkline.cli import agent_registry, options
from trunkline.cli.exit_codes import Exit, complain, exit_of
from trunkline.cli.output import prepare_streams
from trunkline.cli.usage import command, group
from trunkline.model.values import INTERRUPTED, Message, Role, Task

app = group("Try agents of a configuration without a gateway, and keep the registry of the hub.")
agent_registry.register(app)


@command(app, "try")
def try_agent(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="Handle of a configured agent, or Python code as for `serve`: FILE.py, "
            "FILE.py:attribute or module:attribute.",
        ),
    ],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT...",
            help="Texts of the messages, one per turn. With - or nothing, stdin is one text.",
        ),
    ] = None,
    file: options.Files = None,
    data: options.Data = None,
    *,
    files: options.ConfigFlags,
    output: options.ResultOutput = "text",
    timeout: Annotated[
        float | None, options.seconds_option("Stop the agent after this time.", default="none")
    ] = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> Exit:
    """Run turns of an agent in this process and show the answers.

    No server is started and nothing is stored. Each further text is a further turn: it answers
    the question of the agent, if there is one, or continues the conversation. Log messages and
    crashes of the agent appear on stderr. The exit code tells how the last task ended. With
    -o json, prints one line for each event.
    """
    import asyncio

    from trunkline.app.try_agent import trial
    from trunkline.cli.remote.files import message_parts
    from trunkline.cli.remote.follow import View
    from trunkline.cli.remote.screen import screen_for
    from trunkline.clock import new_key
    from trunkline.model.calls import SendMessageRequest
    from trunkline.remote.progress import Progress
    from trunkline.server import logs

    prepare_streams()
    is_code = ".py" in agent or ":" in agent
    settings, _ = options.ConfigFlags().load(target=agent) if is_code else files.load()
    texts = text or []
    turns = [message_parts(texts[0] if texts else None, file or [], data or [])]
    turns += [message_parts(one, [], []) for one in texts[1:]]
    screen = screen_for(output=output, quiet=quiet, verbose=verbose, shows_stream=True)
    keys = [key.key.reveal() for key in settings.auth.keys.values() if key.key is not None]
    logs.configure(level="warning", form="human", secrets=keys)

    async def converse() -> Exit:
        before: Task | None = None
        context_id, code = "", Exit.DONE
        handle = "" if is_code else agent
        async with asyncio.timeout(timeout), trial(settings, handle) as tried:
            for turn, parts in enumerate(turns, 1):
                progress = Progress()
                view = View(screen, output=output, agent=tried.handle, before=before)
                message = Message(
                    message_id=new_key(),
                    role=Role.USER,
                    parts=parts,
                    context_id=context_id,
                    task_id=before.id if before is not None else "",
                )
                view.wait()
                async for event in tried.send(SendMessageRequest(message=message)):
                    progress.add(event)
                    view.item(event)
                    if not progress.is_settled:
                        view.wait()
                screen.close()
                context_id, code = progress.context_id, exit_of(progress.state)
                # In a pipe only the last turn gets a line, and only if it did not go well.
                is_problem = code is not Exit.DONE and turn == len(turns) and not quiet
                if output == "text" and (screen.talks or is_problem):
                    screen.ended(progress.state, progress.task_id, reason=view.reason)
                before = progress.task() if progress.state in INTERRUPTED else None
        return code

    try:
        try:
            return asyncio.run(converse())
        finally:
            screen.close()
    except TimeoutError:
        complain(f"the agent did not end within {timeout:g} s and was stopped.")
        return Exit.TIMEOUT
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
