"""Findings of `trunkline doctor` about an agent that speaks ACP."""

from trunkline.backends.acp.connection import CallFailed, Link, LinkLost
from trunkline.backends.acp.session import NotSpoken, introduce
from trunkline.backends.acp.settings import AcpBackend
from trunkline.backends.kind import Resources
from trunkline.backends.programs.child import Flooded
from trunkline.backends.programs.children import CannotStart, Children, Limits
from trunkline.backends.programs.doctor import find_missing
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.program import Program, program_of
from trunkline.background import BackgroundTasks
from trunkline.ports.backend import Finding
from trunkline.ports.clock import Clock


async def check(settings: AcpBackend, resources: Resources) -> list[Finding]:
    return await check_acp(
        program_of(settings), clock=resources.clock, timeout_s=settings.start_timeout_s
    )


async def check_acp(program: Program, *, clock: Clock, timeout_s: float = 60.0) -> list[Finding]:
    """Whether the program is there, starts and speaks the protocol."""
    if (missing := find_missing(program)) is not None:
        return [missing]
    children, tasks = Children(clock, Limits()), BackgroundTasks("acp check")
    try:
        child = await children.spawn(program, program.argv[1:])
        timer = tasks.start(clock.sleep(timeout_s), name="acp check")
        timer.add_done_callback(lambda done: None if done.cancelled() else child.kill())
        conversation = await introduce(Link(child))
    except (CannotStart, NotSpoken, CallFailed, LinkLost, Flooded, LineTooLong) as error:
        words = program.without_secrets(str(error))
        what = f"{program.argv[0]} does not answer as an ACP agent: {words}".rstrip(": ")
        return [Finding("error", what, "Run it by hand, and look at what it prints.")]
    finally:
        await children.close()
        await tasks.close()
    loads = conversation.capabilities.get("loadSession") is True
    found = [Finding("ok", f"{program.argv[0]} speaks ACP 1")]
    if not loads:
        what = "the agent cannot load sessions: a conversation begins anew after a restart"
        found.append(Finding("warning", what))
    return found
