"""`on_gateway`: runs a command of an operator on calls and sessions."""

from typing import Any

from trunkline.cli.options import StoreFlags


def on_gateway(flags: StoreFlags, name: str, arguments: dict[str, Any]) -> Any:
    """The result, as JSON has it, of the running gateway or, where none runs, of its store. Raises
    TrunklineError."""
    from trunkline.app.operator_client import run_command
    from trunkline.app.routing_commands import run_alone

    return run_command(
        flags.operator_store(), name, arguments, load=flags.settings, alone=run_alone
    )


def every_item(flags: StoreFlags, name: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of all pages of a list."""
    items: list[dict[str, Any]] = []
    after = ""
    while True:
        page = on_gateway(flags, name, {**wanted, "after": after, "limit": 200})
        items += page["items"]
        after = page["after"]
        if not after:
            return items
