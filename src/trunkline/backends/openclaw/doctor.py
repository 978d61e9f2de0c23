"""Findings of `trunkline doctor` about an OpenClaw: access, the agent and its tools."""

import asyncio
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from trunkline.backends.kind import Resources
from trunkline.backends.openclaw.address import Address, openclaw_address
from trunkline.backends.openclaw.agents import check_agent, host_tools, host_tools_finding
from trunkline.backends.openclaw.completions import check_completions
from trunkline.backends.openclaw.connection import Connection, Link
from trunkline.backends.openclaw.failures import Trouble
from trunkline.backends.openclaw.handshake import Hello
from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.background import BackgroundTasks
from trunkline.model.errors import ConfigError
from trunkline.ports.backend import Finding
from trunkline.ports.clock import Clock

_ALL_S: Final = 45.0
# The first release that can stop a run of `agent`.
_OLDEST: Final = (2026, 5)


async def check(settings: OpenClawBackend, resources: Resources) -> list[Finding]:
    address = openclaw_address(settings, resources)
    if settings.surface == "http":
        return await check_completions(address)
    try:
        return await check_openclaw(address, clock=resources.clock)
    except ConfigError as error:
        return [Finding("error", error.message)]


async def check_openclaw(address: Address, *, clock: Clock) -> list[Finding]:
    """Connects as a turn would; runs nothing, and costs no tokens."""
    tasks = BackgroundTasks("openclaw doctor")
    link = Link(address, clock, tasks)
    found = [*_about_address(address)]
    try:
        async with asyncio.timeout(_ALL_S):
            connection = await link.connection()
            found += _about(connection.hello, address)
            found += await _about_agent(connection, address)
    except Trouble as trouble:
        found.append(Finding("error", trouble.found, trouble.remedy))
    except TimeoutError:
        found.append(Finding("error", f"{address.url} takes too long", "Look into OpenClaw's log."))
    finally:
        await link.close()
        await tasks.close()
    return found


def _about_address(address: Address) -> Iterator[Finding]:
    parts = urlsplit(address.url)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127."):
        return
    if parts.scheme == "ws":
        yield Finding(
            "warning",
            f"the token goes to {host} unencrypted",
            "Use a wss:// url, or an SSH tunnel to loopback.",
        )
    if address.device_file is None:
        yield Finding(
            "warning",
            "an OpenClaw on another machine wants to know the device",
            "Set `device_identity = true`.",
        )


def _about(hello: Hello, address: Address) -> Iterator[Finding]:
    yield Finding(
        "ok",
        f"{address.url} is OpenClaw {hello.version} (protocol {hello.protocol}), and lets us in",
    )
    numbers = re.findall(r"\d+", hello.version)
    if len(numbers) >= 2 and (int(numbers[0]), int(numbers[1])) < _OLDEST:
        yield Finding(
            "warning",
            "this release cannot stop a run that was started",
            "Update OpenClaw to 2026.5 or newer.",
        )
    if hello.scopes is not None and "operator.questions" not in hello.scopes:
        yield Finding(
            "warning",
            "questions of the agent cannot be answered: the right operator.questions is missing",
            "Approve the device with it, or connect from the same machine.",
        )


async def _about_agent(connection: Connection, address: Address) -> list[Finding]:
    await check_agent(connection, address.agent_id)
    tools = await host_tools(connection, address.agent_id)
    if tools is None:
        about_tools = Finding("warning", "it does not say which tools the agent has")
    elif tools:
        about_tools = host_tools_finding(address.agent_id, tools)
    else:
        about_tools = Finding("ok", "the agent has no tools that reach its machine")
    return [Finding("ok", f"it has the agent {address.agent_id}"), about_tools]
