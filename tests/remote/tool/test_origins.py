"""What `remote_agent` and the `a2a` backend do about a card that names another origin."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.remote.test_origins import LURES, SECRET, origin, trap
from tests.unit.settings.documents import made

from trunkline.app.outbound import tool_config
from trunkline.backends.a2a import failures
from trunkline.backends.a2a.backend import make
from trunkline.backends.a2a.doctor import check_a2a
from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.kind import Resources
from trunkline.model.outputs import Failed
from trunkline.remote import connect
from trunkline.remote.tool import open_remote_agent
from trunkline.testing import FakeClock, run_turn, turn_request

REQUEST = {"action": "send", "parts": [{"kind": "text", "text": "hello"}]}


def config(url: str, **more: Any) -> dict[str, Any]:
    credentials = {"kind": "bearer", "token": SECRET}
    return {"base_url": url, "default": True, "credentials": credentials, **more}


@pytest.mark.parametrize("lure", LURES)
async def test_the_tool_keeps_credentials_with_their_origin(lure: str) -> None:
    async with trap(LURES[lure]) as found:
        strict = tool_config(made(targets={"peer": config(found.target.url)}))
        async with open_remote_agent(replace(strict, enabled=True)) as tool:
            refused = await tool(REQUEST)
        assert refused["error"]["details"]["reason"] == "ADDRESS_REFUSED"
        assert "trusted_origins" in refused["error"]["message"]
        assert found.collector.connections == 0
        network = {"allow_private_addresses": True}
        lax = tool_config(made(targets={"peer": config(found.target.url)}, network=network))
        async with open_remote_agent(replace(lax, enabled=True)) as tool:
            assert (await tool(REQUEST))["ok"]
        assert found.collector.requests
        assert SECRET not in found.collected


async def test_the_tool_sends_them_where_the_target_says() -> None:
    async with trap(LURES["other origin"]) as found:
        trusted = [origin(found.collector)]
        settings = made(targets={"peer": config(found.target.url, trusted_origins=trusted)})
        async with open_remote_agent(replace(tool_config(settings), enabled=True)) as tool:
            assert (await tool(REQUEST))["ok"]
        assert SECRET in found.collected


async def outputs(url: str, **more: Any) -> list[Any]:
    document = {"kind": "a2a", "url": url, "credentials": {"kind": "bearer", "token": SECRET}}
    agent = made(agents={"a/b": {"backend": {**document, **more}}}).agents["a/b"]
    assert isinstance(agent.backend, A2aBackend)
    backend = make(agent.backend, Resources(clock=FakeClock(), data_dir=Path(), profile=agent))
    try:
        return list(await run_turn(backend, turn_request("hello")))
    finally:
        await backend.close()


@pytest.mark.parametrize("on_unreachable", ["fail", "retry"])
async def test_the_backend_fails_the_turn_at_once(on_unreachable: str) -> None:
    async with trap(LURES["other origin"]) as found:
        *_, last = await outputs(found.target.url, on_unreachable=on_unreachable)
        assert last == Failed(failures.ADDRESS_REFUSED)
        assert found.collector.connections == 0


async def test_the_backend_calls_what_it_is_told_to_trust() -> None:
    async with trap(LURES["other origin"]) as found:
        *_, last = await outputs(found.target.url, trusted_origins=[origin(found.collector)])
        assert not isinstance(last, Failed)
        assert SECRET in found.collected


async def test_the_doctor_names_the_address_and_the_setting() -> None:
    async with trap(LURES["other origin"]) as found, connect(found.target.url) as upstream:
        *_, last = await check_a2a(upstream, found.target.url)
    assert last.level == "error"
    assert f"{origin(found.collector)} is a loopback address" in last.what
    assert "trusted_origins" in last.what
