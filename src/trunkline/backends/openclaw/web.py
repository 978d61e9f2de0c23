"""OpenClaw over HTTP: who we are there, which agents it has, and what a refusal means."""

import asyncio
from typing import Any, Final

import msgspec

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.agents import no_such_agent
from trunkline.backends.openclaw.failures import Trouble, misconfigured, unreachable
from trunkline.backends.openclaw.fold import fit_for_callers
from trunkline.ports.doctor import Finding
from trunkline.remote.errors import RemoteError
from trunkline.remote.http import Answer, Guard, HttpClient
from trunkline.remote.target import Limits

COMPLETIONS: Final = "/v1/chat/completions"
# Its agents, each as `openclaw/<id>`.
_MODELS: Final = "/v1/models"
MAX_ERROR_BYTES: Final = 64 * 1024
_MAX_LIST_BYTES: Final = 1024 * 1024
_CHECK_S: Final = 30.0

TOOLS_UNSEEN: Final = Finding(
    "warning",
    "over http it does not show whether callers can use tools of OpenClaw's machine",
    'Set surface = "websocket" to have the agent\'s tools checked.',
)


async def check_agent(http: HttpClient, address: Address, limits: Limits) -> None:
    """Before every turn, since some releases run an agent that nobody configured, with all
    tools. Raises Trouble."""
    answer = await _fetch(http, address, "GET", _MODELS, limits)
    if answer.status != 200:
        raise refused(answer.status, answer.body)
    known = _agents(answer.body)
    if address.agent_id.lower() not in known:
        raise no_such_agent(address.agent_id, known)


async def check_completions(address: Address) -> list[Finding]:
    """Whether OpenClaw has the endpoint and the agent, and lets us in; runs nothing."""
    http, limits = HttpClient(Guard.of(address.url)), Limits(connect_s=address.connect_s)
    found: list[Finding] = []
    try:
        # A request without messages is refused as such by who would take one.
        answer = await _fetch(http, address, "POST", COMPLETIONS, limits, body=b"{}")
        if answer.status != 400:
            raise refused(answer.status, answer.body)
        found.append(Finding("ok", f"{address.url} has {COMPLETIONS}, and lets us in"))
        await check_agent(http, address, limits)
    except Trouble as trouble:
        return [*found, Finding("error", trouble.found, trouble.remedy)]
    finally:
        await http.close()
    return [*found, Finding("ok", f"it has the agent {address.agent_id}"), TOOLS_UNSEEN]


def authorization(address: Address) -> dict[str, str]:
    return {"Authorization": f"Bearer {address.token}"} if address.token else {}


def refused(status: int, body: bytes) -> Trouble:
    if status in (401, 403):
        return misconfigured(
            f"OpenClaw does not accept the token (status {status})",
            "Set the backend's `token` to `gateway.auth.token` of OpenClaw's configuration.",
        )
    if status in (404, 405):
        return misconfigured(
            f"OpenClaw has no {COMPLETIONS} (status {status})",
            "Set gateway.http.endpoints.chatCompletions.enabled in OpenClaw's configuration, "
            'or surface = "websocket".',
        )
    if status == 400:
        message = _error_in(body)
        told = fit_for_callers(message)
        return Trouble(told, found=f"OpenClaw refuses: {message[:200]}", is_lasting=True)
    return unreachable(f"it answers with status {status}")


async def _fetch(
    http: HttpClient,
    address: Address,
    method: str,
    path: str,
    limits: Limits,
    *,
    body: bytes | None = None,
) -> Answer:
    """Raises Trouble."""
    headers = {"Content-Type": "application/json", **authorization(address)}
    try:
        async with asyncio.timeout(_CHECK_S):
            return await http.fetch(
                method,
                f"{address.url.rstrip('/')}{path}",
                headers=headers,
                body=body,
                limits=limits,
                max_bytes=_MAX_LIST_BYTES,
            )
    except RemoteError as error:
        raise unreachable(error.message) from None
    except TimeoutError:
        raise unreachable("it takes too long to answer") from None


def _agents(body: bytes) -> frozenset[str]:
    listed = _read(body).get("data")
    names = [
        str(model.get("id", "")).lower().partition("/")
        for model in (listed if isinstance(listed, list) else [])
        if isinstance(model, dict)
    ]
    return frozenset(agent for owner, _, agent in names if owner == "openclaw" and agent)


def _error_in(body: bytes) -> str:
    error = _read(body).get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def _read(body: bytes) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
