"""`trunkline reload`."""

from typing import TYPE_CHECKING

import msgspec

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.output import json_document

if TYPE_CHECKING:
    from trunkline.app.reload import Reloaded


def reload(flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Apply changes of the configuration file to the running gateway.

    The gateway reads its own file again, with the options and the environment that it was started
    with, and checks it as a whole; a file with a problem changes nothing. Agents that are new are
    published, those that are gone are withdrawn, and those that changed are replaced. Running turns
    finish. The options name the store of the gateway, which is where it is found. Ends with 15 if
    no gateway is running there.
    """
    from trunkline.app.operator_client import NotRunning, call_gateway
    from trunkline.app.reload import Reloaded

    try:
        result = call_gateway(flags.operator_store(), "reload")
    except NotRunning as error:
        complain(f"there is nothing to reload: {error.message}")
        return Exit.NOT_RUNNING
    done = msgspec.convert(result, Reloaded)
    if output == "json":
        print(json_document(done))
    else:
        print(screen(done))
    return Exit.FAILED if done.failed else Exit.DONE


def screen(done: "Reloaded") -> str:
    """The changes, one line for each kind."""
    grace = f"; running turns have {done.grace_s:g} s to finish"
    rows = [
        ("Published", done.published, ""),
        ("Replaced", done.replaced, "; running turns finish as they began"),
        ("Withdrawn", done.withdrawn, grace),
        ("Moved", done.moved, "; their cards name the new addresses"),
        ("Applied", done.applied, ""),
    ]
    lines = [f"{name:<9} {', '.join(what)}{more}" for name, what, more in rows if what]
    lines = lines or ["Nothing has changed."]
    if done.needs_restart:
        keys = ", ".join(done.needs_restart)
        lines.append(f"Restart the gateway to apply {keys}.")
    lines += [f"Failed    {reason}" for reason in done.failed.values()]
    lines += [f"Note: {note}" for note in done.notes]
    return "\n".join(lines)
