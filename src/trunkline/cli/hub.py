"""`on_hub`: runs a command of an operator on the hub, for the commands of its parts."""

from typing import TYPE_CHECKING, Any

from trunkline.cli.options import StoreFlags, store_overrides
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.settings import Settings


def on_hub(flags: StoreFlags, name: str, arguments: dict[str, Any]) -> Any:
    """The result, as JSON has it, of the running gateway or, where none runs, of its store. Raises
    TrunklineError."""
    from trunkline.app.hub_commands import run_alone
    from trunkline.app.operator_client import run_command

    try:
        store = hub_settings(flags).operator_store()
    except ConfigError:
        # The running gateway has the environment that the file refers to.
        store = flags.operator_store()
    return run_command(store, name, arguments, load=lambda: hub_settings(flags), alone=run_alone)


def hub_settings(flags: StoreFlags) -> "Settings":
    """The settings of the flags, with the hub on also where the file does not mention it, as
    `trunkline serve --hub` has it. Raises ConfigError."""
    from trunkline.settings import from_document

    overrides = {"hub": {}, **store_overrides(flags.config, flags.data, flags.db)}
    if flags.file is None:
        return from_document(overrides, source="the command line")
    return flags.load(overrides=overrides)[0]
