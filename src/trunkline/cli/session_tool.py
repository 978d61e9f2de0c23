"""`use_in_session`: the tools by which agents ask each other, on the command line.

The program of an agent uses them with the token of its turn. An operator names a session, and the
gateway on this machine uses the tool there.
"""

import asyncio
import os
from typing import Any, Final

from trunkline.backends.programs.children import TOOLS_TOKEN, TOOLS_URL
from trunkline.cli.exit_codes import Exit
from trunkline.cli.options import StoreFlags
from trunkline.cli.output import program
from trunkline.model.errors import ConfigError, TrunklineError

# Tools wait for answers of agents, and a debate has many of them. The gateway itself limits both.
_ANSWER_S: Final = 24 * 3600.0
_NO_ACCESS: Final = "unauthenticated"
_WRONG_ARGUMENTS: Final = ("validation_failed", "input_validation_failed")


def use_in_session(
    name: str, arguments: Any, *, session: dict[str, Any], flags: StoreFlags
) -> dict[str, Any]:
    """The result of the tool. Raises ConfigError and other TrunklineErrors."""
    url, token = os.environ.get(TOOLS_URL), os.environ.get(TOOLS_TOKEN)
    if url and token:
        if session["key"]:
            raise ConfigError(
                "--session: the program of an agent acts in the session of its turn. Leave the "
                "option out."
            )
        return asyncio.run(_by_token(url, token, name, arguments))
    if not session["key"]:
        raise ConfigError(
            f"{name} acts in the session of an agent. Name it with --session KEY; "
            f"{program()} session ls has the keys. The programs of agents have {TOOLS_URL} and "
            f"{TOOLS_TOKEN} in its place."
        )
    from trunkline.app.operator_client import call_gateway
    from trunkline.app.routing_commands import USE_TOOL

    given = {**session, "tool": name, "arguments": arguments}
    found: dict[str, Any] = call_gateway(
        flags.operator_store(), USE_TOOL, given, answer_s=_ANSWER_S
    )
    return found


def exit_of_tool(result: dict[str, Any]) -> Exit:
    from trunkline.protocol.skill_calls import is_refusal

    if not is_refusal(result):
        return Exit.DONE
    code = result["error"]["code"]
    if code in _WRONG_ARGUMENTS:
        return Exit.WRONG_USE
    return Exit.NO_ACCESS if code == _NO_ACCESS else Exit.FAILED


async def _by_token(url: str, token: str, name: str, arguments: Any) -> dict[str, Any]:
    from trunkline.hub.client import HubRefused, RemoteError, connect_hub
    from trunkline.protocol import skill_calls
    from trunkline.remote.target import Limits

    limits = Limits(call_s=_ANSWER_S, idle_s=_ANSWER_S)
    base = url.removesuffix("/api/v1/tools")
    try:
        async with connect_hub(base, token=token, limits=limits) as hub:
            result: dict[str, Any] = await getattr(hub, name)(arguments)
            return result
    except HubRefused as refused:
        return skill_calls.refusal(_code(refused.data) or refused.reason.lower(), refused.message)
    except RemoteError as error:
        raise TrunklineError(f"{TOOLS_URL}: {error.message}") from error


def _code(details: Any) -> str:
    """The code of a call that was refused, which the gateway says beside the reason of HTTP."""
    for detail in details if isinstance(details, list) else ():
        metadata = detail.get("metadata") if isinstance(detail, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("code"), str):
            return str(metadata["code"])
    return ""
