"""Findings of `trunkline doctor` about a command."""

from msgspec.structs import replace

from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.kind import Resources
from trunkline.backends.programs.child import Flooded
from trunkline.backends.programs.children import CannotStart, Children
from trunkline.backends.programs.output_lines import LineTooLong
from trunkline.ports.backend import Finding

VERSION_S = 20.0


async def check(settings: CommandBackend, resources: Resources) -> list[Finding]:
    """Whether the program is there and runs."""
    few = replace(settings, max_output_bytes=64 * 1024, max_line_bytes=64 * 1024)
    children, name = Children(few, resources.clock), settings.command[0]
    if (missing := children.program.missing()) is not None:
        return [missing]
    found = [Finding("ok", f"{name} is {children.program.path()}")]
    # Any other program may do whatever it likes with `--version`.
    if settings.format != "text":
        found.append(await _version(children))
        if (without := children.program.without_mcp()) is not None:
            found.append(without)
    return found


async def _version(children: Children) -> Finding:
    name = children.settings.command[0]
    try:
        child = await children.spawn(["--version"])
        child.end_input()
        if not await child.exits_within(VERSION_S) or child.exited.result() != 0:
            words = children.settings.without_secrets(str(child.errors))[-200:]
            return Finding("error", f"{name} --version fails: {words}", "Run it by hand.")
        version = (await child.line() or b"").decode(errors="replace").strip()
        return Finding("ok", f"{name} says {version}")
    except (CannotStart, Flooded, LineTooLong) as error:
        return Finding("error", f"{name} --version fails: {error}", "Run it by hand.")
    finally:
        await children.close()
