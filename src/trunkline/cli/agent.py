"""`trunkline agent try`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from trunkline.cli.exits import Exit
from trunkline.cli.failures import complain, reported
from trunkline.cli.help import command
from trunkline.cli.options import Debug, Form, OpenClawConfig
from trunkline.cli.remote import options
from trunkline.cli.storage import ConfigOption
from trunkline.cli.typed import seconds

if TYPE_CHECKING:
    from trunkline.app.try_agent import Trial
    from trunkline.cli.remote.plain import PlainScreen
    from trunkline.model.values import Part
    from trunkline.remote.progress import Progress
    from trunkline.settings import Settings

app = typer.Typer(help="Try the agents of a configuration without a gateway.", no_args_is_help=True)


@command(app, "try")
def try_agent(
    context: typer.Context,
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="Handle of a configured agent, or Python code as for `serve`: FILE.py, "
            "FILE.py:attribute or module:attribute.",
            show_default=False,
        ),
    ],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT...",
            help="Texts of the messages, one per turn. With - or nothing, stdin is one text.",
            show_default=False,
        ),
    ] = None,
    file: options.Files = None,
    data: options.Data = None,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    output: options.Output = Form.text,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="SECONDS",
            help="Stop the agent after this time.",
            show_default="none",
        ),
    ] = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: Debug = False,
) -> None:
    """Run turns of an agent in this process and show the answers.

    No server is started and nothing is stored. Each further text is a further turn: it answers
    the question of the agent, if there is one, or continues the conversation. Log messages and
    crashes of the agent appear on stderr. The exit code tells how the last task ended. With
    -o json, prints one line for each event.
    """
    from trunkline.cli.remote.content import parts_of
    from trunkline.cli.remote.ending import prepare_streams
    from trunkline.cli.remote.views import screen_for

    prepare_streams()
    with reported(context):
        settings, handle = _settings(agent, config, openclaw_config)
        texts = text or []
        turns = [parts_of(texts[0] if texts else None, file or [], data or [])]
        turns += [parts_of(one, [], []) for one in texts[1:]]
        screen = screen_for(output=output, quiet=quiet, verbose=verbose, shows_stream=True)
        try:
            try:
                code = asyncio.run(
                    _try(settings, handle, turns, _Show(screen, output, quiet), timeout)
                )
            finally:
                screen.close()
        except TimeoutError:
            complain(f"the agent did not end within {timeout:g} s and was stopped.")
            code = Exit.TIMEOUT
        except KeyboardInterrupt:
            code = Exit.INTERRUPTED
    raise typer.Exit(code)


class _Show(Struct, frozen=True):
    """How turns are shown; `send` shows a message the same way."""

    screen: "PlainScreen"
    output: Form
    quiet: bool

    def end(self, progress: "Progress", *, reason: str, is_last: bool) -> None:
        """The line about a turn: in a pipe only after the last, and only if it did not go well."""
        from trunkline.cli.exits import exit_of

        state = progress.state
        is_problem = is_last and not self.quiet and exit_of(state) is not Exit.DONE
        if self.output is Form.json or not (self.screen.talks or is_problem):
            return
        if state is None:
            self.screen.answered("")
        else:
            self.screen.ended(state, progress.task_id, reason=reason)


def _settings(
    agent: str, config: Path | None, openclaw_config: Path | None
) -> tuple["Settings", str]:
    """The settings, and the handle in them; empty for the only one there is."""
    from trunkline.settings import demo, for_target, load

    if ".py" in agent or ":" in agent:
        return for_target(agent), ""
    if openclaw_config is not None:
        from trunkline.settings.openclaw import load_openclaw

        return load_openclaw(openclaw_config, config=config).settings, agent
    return (demo() if config is None else load(config)), agent


async def _try(
    settings: "Settings",
    handle: str,
    turns: "list[tuple[Part, ...]]",
    show: _Show,
    timeout_s: float | None,
) -> Exit:
    from trunkline.app.try_agent import trial
    from trunkline.server import logs

    keys = [key.key.reveal() for key in settings.auth.keys.values() if key.key is not None]
    logs.configure(level="warning", form="human", secrets=keys)
    async with asyncio.timeout(timeout_s), trial(settings, handle) as agent:
        return await _converse(agent, turns, show)


async def _converse(agent: "Trial", turns: "list[tuple[Part, ...]]", show: _Show) -> Exit:
    from trunkline.cli.exits import exit_of
    from trunkline.cli.remote.views import view_for
    from trunkline.clock import new_key
    from trunkline.model.calls import SendMessageRequest
    from trunkline.model.values import INTERRUPTED, Message, Role, Task
    from trunkline.remote.progress import Progress

    before: Task | None = None
    context_id = ""
    code = Exit.DONE
    screen = show.screen
    for turn, parts in enumerate(turns, 1):
        progress = Progress()
        view = view_for(
            screen,
            output=show.output,
            prints=True,
            waiting_for=f"{agent.handle} is working",
            before=before,
        )
        message = Message(
            message_id=new_key(),
            role=Role.USER,
            parts=parts,
            context_id=context_id,
            task_id=before.id if before is not None else "",
        )
        view.wait()
        async for event in agent.send(SendMessageRequest(message=message)):
            progress.add(event)
            view.item(event)
            if not progress.is_settled:
                view.wait()
        screen.close()
        state, context_id = progress.state, progress.context_id
        code = exit_of(state)
        show.end(progress, reason=view.reason, is_last=turn == len(turns))
        before = progress.task() if state in INTERRUPTED else None
    return code
