"""What `trunkline doctor` says about a command."""

from trunkline.backends.process.bytes_read import LineTooLong
from trunkline.backends.process.child import Flooded
from trunkline.backends.process.children import CannotStart, Children, Limits
from trunkline.backends.process.missing import find_missing
from trunkline.backends.process.program import Program
from trunkline.ports.clock import Clock
from trunkline.ports.doctor import Finding

VERSION_S = 20.0


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
