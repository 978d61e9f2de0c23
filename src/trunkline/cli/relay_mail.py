"""`trunkline relay mail`: the messages that wait at a relay, and those that cannot be delivered."""

from collections.abc import Sequence
from typing import Annotated

import typer

from trunkline.cli import options
from trunkline.cli.output import aligned, json_document, one_line
from trunkline.cli.relay_store import on_relay
from trunkline.cli.usage import command, group

mail = group("Messages for agents that are away.")

Agent = Annotated[
    str, typer.Argument(metavar="TENANT/AGENT", help="The agent, such as acme/helper.")
]
Task = Annotated[str, typer.Argument(metavar="TASK", help="Id of the task of the message.")]
_MAILBOX_TITLES = ("AGENT", "WAITING", "BYTES", "OLDEST", "DEAD")
_DEAD_TITLES = ("TASK", "SENDER", "SENT", "DEAD SINCE", "REASON")


@command(mail, "list")
def list_mailboxes(*, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """List the agents for which messages wait, or that have dead letters."""
    items = on_relay(flags, "relay.mail.list", {})["items"]
    if output == "json":
        print(json_document({"items": items}))
        return
    rows = [
        (
            one_line(each["agent"]),
            str(each["waiting"]),
            str(each["bytes"]),
            each["oldestAt"] or "-",
            str(each["dead"]),
        )
        for each in items
    ]
    print(_table(_MAILBOX_TITLES, rows, "mailboxes"))


@command(mail, "dead")
def dead(agent: Agent, *, flags: options.StoreFlags, output: options.Output = "text") -> None:
    """List the messages for an agent that could not be delivered, and why.

    They are kept for 7 days. Their tasks have failed.
    """
    items = on_relay(flags, "relay.mail.dead", {"agent": agent})["items"]
    if output == "json":
        print(json_document({"items": items}))
        return
    rows = [
        (
            one_line(each["task"]),
            one_line(each["sender"]),
            each["sentAt"],
            each["deadAt"],
            one_line(each["reason"]),
        )
        for each in items
    ]
    print(_table(_DEAD_TITLES, rows, "dead letters"))


@command(mail, "retry")
def retry(
    agent: Agent, task: Task, *, flags: options.StoreFlags, output: options.Output = "text"
) -> None:
    """Put a message that could not be delivered into the mailbox again.

    It gets a new task of the same sender, because the one before has failed for good. The id of the
    new task is printed.
    """
    again = on_relay(flags, "relay.mail.retry", {"agent": agent, "task": task})
    print(json_document(again) if output == "json" else again["task"])


@command(mail, "discard")
def discard(
    agent: Agent, task: Task, *, flags: options.StoreFlags, output: options.Output = "text"
) -> None:
    """Forget a message that could not be delivered, and its failed task."""
    gone = on_relay(flags, "relay.mail.discard", {"agent": agent, "task": task})
    print(json_document(gone) if output == "json" else f"discarded {task}")


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], nouns: str) -> str:
    if not rows:
        return f"no {nouns}"
    lines = aligned([titles, *rows])
    return "\n".join([*lines, f"{len(rows)} {nouns}"] if len(rows) > 1 else lines)
