"""`trunkline open`."""

import sys
from typing import Annotated

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain


def open_page(
    flags: options.StoreFlags,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the URL without opening a browser.")
    ] = False,
) -> Exit:
    """Open the page of the running gateway in a browser.

    Asks the gateway for a URL with a code, which counts once, for two minutes, and in a browser on
    this machine alone. The options name the store of the gateway, which is where it is found. A
    gateway whose tasks are in memory takes no commands: open the URL that `trunkline serve` printed
    at its start. Ends with 15 if no gateway is running there.
    """
    from trunkline.app.operator_client import NotRunning, call_gateway
    from trunkline.model.errors import OperatorRefused
    from trunkline.settings.stores import operator_path

    store = flags.operator_store()
    if operator_path(store) is None:
        raise OperatorRefused(
            "a gateway whose tasks are in memory takes no commands, because it has no data folder. "
            "Open the URL beside Page that `trunkline serve` printed at its start; for another "
            "one, start the gateway again."
        )
    try:
        url = call_gateway(store, "open")["url"]
    except NotRunning as error:
        complain(f"there is no page to open: {error.message}")
        return Exit.NOT_RUNNING
    print(url, flush=True)
    if not print_only and not _opens(url):
        print("No browser could be started; open the URL yourself.", file=sys.stderr)
    return Exit.DONE


def _opens(url: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
