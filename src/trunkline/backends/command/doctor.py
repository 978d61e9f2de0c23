"""Findings of `trunkline doctor` about a command."""

from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.kind import Resources
from trunkline.backends.programs.child import Flooded
from trunkline.backends.programs.children import CannotStart, Children, Limits
from trunkline.backends.programs.doctor import find_missing
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.backends.programs.program import Program, program_of
from trunkline.ports.backend import Finding
from trunkline.ports.clock import Clock

VERSION_S = 20.0


async def check(settings: CommandBackend, resources: Resources) -> list[Finding]:
    # Any other program may do whatever it likes with `--version`.
    is_known = settings.format != "text"
    return await check_command(program_of(settings), clock=resources.clock, asks_version=is_known)


async def check_command(program: Program, *, clock: Clock, asks_version: bool) -> list[Finding]:
    """Whether the program is there and runs. `asks_version` for those that take `--version`."""
    if (missing := find_missing(program)) is not None:
        return [missing]
    found = [Finding("ok", f"{program.argv[0]} is {program.path()}")]
    if asks_version:
        found.append(await _version(program, clock))
    return found


async def _version(program: Program, clock: Clock) -> Finding:
    children = Children(clock, Limits(max_output_bytes=64 * 1024, max_line_bytes=64 * 1024))
    try:
        child = await children.spawn(program, ["--version"])
        child.end_input()
        if not await child.exits_within(VERSION_S) or child.exited.result() != 0:
            words = program.without_secrets(str(child.errors))[-200:]
            return Finding(
                "error", f"{program.argv[0]} --version fails: {words}", "Run it by hand."
            )
        version = (await child.line() or b"").decode(errors="replace").strip()
        return Finding("ok", f"{program.argv[0]} says {version}")
    except (CannotStart, Flooded, LineTooLong) as error:
        return Finding("error", f"{program.argv[0]} --version fails: {error}", "Run it by hand.")
    finally:
        await children.close()
