"""`trunkline nodes`."""

from typing import TYPE_CHECKING

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.output import aligned, json_document, one_line

if TYPE_CHECKING:
    from trunkline.app.nodes import NodeInfo


def nodes(flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """List the gateways that run on a store.

    On PostgreSQL they are read from the database, whether or not one runs on this machine; the one
    whose own files are in --data, on this machine, is marked. Gateways that left or were given up
    are shown for an hour. Any other store has one gateway. Ends with 15 if none is running.
    """
    from trunkline.app.nodes import find_nodes
    from trunkline.app.operator_client import NotRunning
    from trunkline.settings.stores import place_of

    store, lease_s = flags.store_and_lease()
    try:
        found = find_nodes(store, lease_s=lease_s)
    except NotRunning as error:
        complain(error.message)
        return Exit.NOT_RUNNING
    if output == "json":
        print(json_document({"store": place_of(store), "nodes": found}))
    else:
        print(screen(found, place_of(store)))
    return Exit.DONE if any(each.is_alive for each in found) else Exit.NOT_RUNNING


_TITLES = ("NODE", "HOST", "PID", "RELEASE", "SINCE", "LAST BEAT", "LANES", "")


def screen(found: "list[NodeInfo]", place: str) -> str:
    """The gateways as a table, and how many there are."""
    from trunkline.model.timestamps import format_timestamp

    living = sum(each.is_alive for each in found)
    total = f"{'one node' if living == 1 else f'{living} nodes'}, {place}"
    if not found:
        return total
    rows = [_TITLES] + [
        (
            each.node or "-",
            one_line(each.host),
            str(each.pid),
            one_line(each.release),
            format_timestamp(each.started_ms),
            "-" if each.beat_ago_s is None else f"{max(0.0, each.beat_ago_s):.1f} s ago",
            "-" if each.lanes is None else str(each.lanes),
            "this one" if each.is_here else "" if each.is_alive else "gone",
        )
        for each in found
    ]
    lines = aligned(rows)
    return "\n".join([*lines, total])
