"""`trunkline session ls | show | rm`: conversations of callers with agents."""

from typing import Annotated, Any

import typer
from msgspec import Struct

from trunkline.cli import options
from trunkline.cli.on_gateway import every_item, on_gateway
from trunkline.cli.output import aligned, clean, counted, json_document, one_line
from trunkline.cli.usage import command, group

app = group("Conversations of callers with agents.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the session, as `ls` shows it.")]
_TITLES = ("KEY", "AGENT", "CALLER", "TASKS", "ENTRIES", "CHANGED")
_ROLES = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}


class SessionFlags(Struct, frozen=True, kw_only=True):
    """Whose session it is, where several have the same key."""

    agent: Annotated[str, typer.Option(metavar="OWNER/SLUG", help="Agent of the session.")] = ""
    principal: Annotated[str, typer.Option(metavar="ID", help="Caller of the session.")] = ""
    tenant: Annotated[str, typer.Option(help="Tenant of the caller.")] = ""

    def named(self, key: str) -> dict[str, Any]:
        return {
            "key": key,
            "agent": self.agent,
            "principal": self.principal,
            "tenant": self.tenant,
        }


@command(app, "ls")
def ls(
    *,
    agent: Annotated[str, typer.Option(metavar="OWNER/SLUG", help="Only sessions with it.")] = "",
    principal: Annotated[
        str, typer.Option(metavar="ID", help="Only sessions of this caller.")
    ] = "",
    tenant: Annotated[str, typer.Option(help="Tenant of the caller.")] = "",
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """List the sessions that were not ended, the one that changed last first.

    Of each agent the latest thousand tasks, answers and entries are looked at.
    """
    wanted = {"agent": agent, "principal": principal, "tenant": tenant}
    items = every_item(flags, "sessions.list", wanted)
    print(json_document({"items": items}) if output == "json" else _table(items))


@command(app, "show")
def show(
    key: Key,
    *,
    limit: Annotated[int, options.limit_option("Number of messages, the last ones.")] = 20,
    session: SessionFlags,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """Show the last messages of a session, the oldest first."""
    found = on_gateway(flags, "sessions.read", {**session.named(key), "limit": limit})
    print(json_document(found) if output == "json" else _told(found["messages"]))


@command(app, "rm")
def rm(
    key: Key,
    *,
    session: SessionFlags,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """End a session.

    Its messages and entries belong to no later turn, the answers to its pending calls are
    discarded, and programs lose their tools. Its tasks stay.
    """
    done = on_gateway(flags, "sessions.end", session.named(key))
    if output == "json":
        print(json_document(done))
        return
    count = done["discardedCalls"]
    discarded = f"; {counted(count, 'pending call')} discarded" if count else ""
    print(f"{one_line(key)}: ended{discarded}")


def _table(items: list[dict[str, Any]]) -> str:
    if not items:
        return "no sessions"
    rows = [_TITLES] + [
        (
            one_line(each["key"]),
            each["agent"],
            one_line(" of ".join(filter(None, (each["principal"], each["tenant"])))),
            str(each["tasks"]),
            str(each["entries"]),
            each["changedAt"],
        )
        for each in items
    ]
    lines = aligned(rows)
    return "\n".join([*lines, counted(len(items), "session")] if len(items) > 1 else lines)


def _told(messages: list[dict[str, Any]]) -> str:
    if not messages:
        return "no messages"
    return "\n".join(_message(each) for each in messages)


def _message(message: dict[str, Any]) -> str:
    metadata = message.get("metadata") or {}
    provenance = metadata.get("provenance") if isinstance(metadata, dict) else None
    is_answer = isinstance(provenance, dict) and provenance.get("kind") == "tool_response"
    who = "answer" if is_answer else _ROLES.get(message["role"], "?")
    text = "\n".join(_part(part) for part in message["parts"])
    # Further lines stand below the first.
    return f"{who:>6}  " + clean(text).replace("\n", "\n" + " " * 8)


def _part(part: dict[str, Any]) -> str:
    if "text" in part:
        return str(part["text"])
    if "data" in part:
        return json_document(part["data"])
    name = part.get("filename") or part.get("mediaType") or "file"
    return f"[{part['url']}]" if "url" in part else f"[{name}]"
