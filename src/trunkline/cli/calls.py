"""`trunkline calls ls | show`: calls of agents to agents."""

from typing import Annotated, Any, Literal

import typer

from trunkline.cli import options
from trunkline.cli.on_gateway import every_item, on_gateway
from trunkline.cli.output import aligned, clean, counted, json_document, one_line
from trunkline.cli.usage import command, group

app = group("Calls of agents to agents.")

_TITLES = ("ID", "AGENT", "ASKED", "STATUS", "SINCE", "TIMEOUT", "ON BEHALF OF")


@command(app, "ls")
def ls(
    *,
    agent: Annotated[str, typer.Option(metavar="OWNER/SLUG", help="Only calls of it.")] = "",
    callee: Annotated[str, typer.Option(metavar="OWNER/SLUG", help="Only calls to it.")] = "",
    status: Annotated[
        Literal["pending", "completed", "error", "input_required", "timeout", "discarded"] | None,
        typer.Option(help="Only calls in this state.", show_default="all"),
    ] = None,
    principal: Annotated[
        str, typer.Option(metavar="ID", help="Only calls on behalf of this caller.")
    ] = "",
    tenant: Annotated[str, typer.Option(help="With --principal: the tenant of the caller.")] = "",
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """List the calls under way, and those that ended so recently that their outcome is kept."""
    wanted: dict[str, Any] = {
        "agent": agent,
        "callee": callee,
        "status": status,
        "principal": principal,
        "tenant": tenant,
    }
    items = every_item(flags, "calls.list", wanted)
    print(json_document({"items": items}) if output == "json" else _table(items))


@command(app, "show")
def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="Correlation id of the call.")],
    *,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Show a call, with its outcome."""
    call = on_gateway(flags, "calls.show", {"id": id})
    print(json_document(call) if output == "json" else _whole(call))


def _table(items: list[dict[str, Any]]) -> str:
    if not items:
        return "no calls"
    rows = [_TITLES] + [
        (
            each["id"],
            each["agent"],
            each["callee"],
            each["status"],
            each["createdAt"],
            _seconds(each),
            one_line(each["principal"]),
        )
        for each in items
    ]
    lines = aligned(rows)
    return "\n".join([*lines, counted(len(items), "call")] if len(items) > 1 else lines)


def _whole(call: dict[str, Any]) -> str:
    skill = f"#{call['skill']}" if call["skill"] else ""
    rows = [
        ("Call", call["id"]),
        ("Agent", call["agent"]),
        ("Asked", f"{call['callee']}{skill}, by {call['tool']}"),
        ("Session", one_line(call["session"])),
        ("Caller", _with_tenant(call)),
        ("Task", one_line(call["taskId"])),
        ("Status", call["status"]),
        ("Since", f"{call['createdAt']}, timeout {_seconds(call)}"),
        ("Ended", call["endedAt"] or "-"),
        ("Parent", call["parent"] or "-"),
    ]
    lines = aligned(rows)
    if call["result"] is not None:
        lines += ["", json_document(call["result"])]
    return "\n".join(lines)


def _seconds(call: dict[str, Any]) -> str:
    return f"{call['timeoutMs'] / 1000:g} s"


def _with_tenant(call: dict[str, Any]) -> str:
    tenant = f" of {call['tenant']}" if call["tenant"] else ""
    return clean(one_line(f"{call['principal']}{tenant}"))
